"""Versions of a table's metadata: the one a catalog points at, and how a next one without some snapshots takes its place.

Nothing may vanish that appeared since the version was read, above all no branch or tag. A SQL catalog holds the pointer
itself, so the next version is written by us, raw, and takes the old one's place only if that is still the current one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from lakewarden.formats.iceberg.catalog.rows import catalog_table, is_row, table_row
from lakewarden.formats.iceberg.commit.next_document import (
    dumps,
    next_location,
    with_properties,
    with_snapshot,
    without,
)
from lakewarden.formats.iceberg.metadata.known import Version, read_version
from lakewarden.formats.iceberg.metadata.refs import MAIN, refs_of
from lakewarden.model.errors import CatalogUnavailableError, DoubtfulCommitError, PlanOutdatedError
from lakewarden.model.ports import Files

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog


# Which of the refs that were planned to go may go from a version.
MayGo = Callable[[Version], Collection[str]]


class MovedOnError(Exception):
    """Somebody else committed meanwhile: nothing was changed, and it can be tried again on the version that is now."""


class RefusedError(MovedOnError):
    """The same, and the catalog itself has said so: whatever was to be committed never was, and never will be."""


class Versions(Protocol):
    """One catalog's tables, by their name within it."""

    def current(self, table: str) -> Version:
        """The version that the catalog points at now. Raises PlanOutdatedError if the table is gone."""
        ...

    def expire(
        self, table: str, version: Version, snapshots: Collection[int], refs: Collection[str], now: datetime
    ) -> Version:
        """The next version, less these. Raises MovedOnError if anything changed since `version` was read.

        Where a catalog cannot promise that, what was lost is put back before this returns, or LostRefError is raised.
        """
        ...

    def settle(
        self, table: str, version: Version, announced: Collection[int], refs: Collection[str], may_go: MayGo
    ) -> Version:
        """The version as it is after what an earlier commit of this run may have taken along was put back.

        `announced` and `refs` are what such a commit was to take. LostRefError if something is lost or may be.
        """
        ...

    def add(self, table: str, version: Version, snapshot: Mapping[str, Any], branch: str = MAIN) -> Version:
        """The next version, with this snapshot as the newest of a branch. Raises MovedOnError if that moved on.

        RefusedError is a MovedOnError of which it is certain that the snapshot is and will be in no version.
        """
        ...

    def set_properties(self, table: str, version: Version, properties: Mapping[str, str]) -> Version:
        """The next version, with these properties of the table. Raises MovedOnError if the table moved on meanwhile."""
        ...

    def add_ref(self, table: str, version: Version, name: str, ref: Mapping[str, Any], now: datetime) -> Version:
        """The next version, with this ref, of which there is none in `version`. Raises MovedOnError if there is one now."""
        ...

    def store_properties(self, table: str) -> Mapping[str, str]:
        """How the table's files are reached, in PyIceberg's words: what was configured, and what a server adds to it."""
        ...


class SqlVersions:
    """Tables of a SQL catalog: a row holds the pointer, and is changed only while it holds what we have read."""

    def __init__(self, catalog: SqlCatalog, files: Files) -> None:
        self._catalog = catalog
        self._files = files

    def current(self, table: str) -> Version:
        return read_version(self._files, self._pointer(table))

    def expire(
        self, table: str, version: Version, snapshots: Collection[int], refs: Collection[str], now: datetime
    ) -> Version:
        document = without(version.document, version.location, snapshots, refs, int(now.timestamp() * 1000))
        return self._replace(table, version, document)

    def settle(
        self, table: str, version: Version, announced: Collection[int], refs: Collection[str], may_go: MayGo
    ) -> Version:
        return version  # a commit of ours replaces what it has read and nothing else

    def add(self, table: str, version: Version, snapshot: Mapping[str, Any], branch: str = MAIN) -> Version:
        return self._replace(table, version, with_snapshot(version.document, version.location, snapshot, branch))

    def set_properties(self, table: str, version: Version, properties: Mapping[str, str]) -> Version:
        # The instant of the version that is replaced: a commit that changes no data makes the table no newer.
        at_ms = int(version.document["last-updated-ms"])
        return self._replace(table, version, with_properties(version.document, version.location, properties, at_ms))

    def add_ref(self, table: str, version: Version, name: str, ref: Mapping[str, Any], now: datetime) -> Version:
        document = without(version.document, version.location, (), (), int(now.timestamp() * 1000))
        return self._replace(table, version, {**document, "refs": {**refs_of(version.document), name: dict(ref)}})

    def store_properties(self, table: str) -> Mapping[str, str]:
        return dict(self._catalog.properties)

    def _replace(self, table: str, version: Version, document: Mapping[str, Any]) -> Version:
        location = next_location(version.document, version.location, str(uuid.uuid4()))
        raw = dumps(document)
        if not self._files.create(location, raw):
            raise RefusedError(f"{location} is taken")
        try:
            swapped = self._swap(table, version.location, location)
        except Exception as error:
            # The answer may have been lost on its way, so the row says whether it was done.
            swapped = self._pointer_after(table, error) == location
            if not swapped:
                raise MovedOnError(str(error)) from error
        if not swapped:
            raise RefusedError(f"{table} was changed meanwhile")
        return Version(location, raw, document)

    def _pointer_after(self, table: str, error: Exception) -> str:
        """The pointer, after a swap that ended in an error. Raises DoubtfulCommitError where nobody can say."""
        try:
            return self._pointer(table)
        except CatalogUnavailableError as silent:
            raise DoubtfulCommitError(
                f"catalog {self._catalog.name} did not take the commit on {table} ({type(error).__name__}: {error}) and "
                "cannot be asked whether it was made; it may or may not have been, and no file was touched"
            ) from silent

    def _pointer(self, table: str) -> str:
        try:
            found = table_row(self._catalog, table)
        except Exception as error:
            raise CatalogUnavailableError(
                f"catalog {self._catalog.name} could not be read ({type(error).__name__}: {error}); nothing was changed"
            ) from error
        if found is None or not found.location:
            raise PlanOutdatedError(f"{self._catalog.name}.{table} is gone; nothing of it was changed")
        return found.location

    def _swap(self, table: str, old: str, new: str) -> bool:
        rows = catalog_table()
        change = rows.update().where(*is_row(self._catalog, table), rows.c.metadata_location == old)
        values = {"metadata_location": new, "previous_metadata_location": old}
        with self._catalog.engine.begin() as connection:
            return bool(connection.execute(change.values(**values)).rowcount == 1)
