"""Branches of Iceberg tables: refs in each table's metadata, removed by one commit of metadata a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import takewhile
from typing import Any

from lakewarden.formats.iceberg.branches.looked_at import changed
from lakewarden.formats.iceberg.branches.refs import branches_of
from lakewarden.formats.iceberg.commit.versions import MovedOnError, Versions
from lakewarden.formats.iceberg.metadata.document import GARBLED, table_state
from lakewarden.formats.iceberg.metadata.known import KnownVersions, Version
from lakewarden.formats.iceberg.metadata.refs import refs_of
from lakewarden.model.branches import BranchPlace, BranchSight
from lakewarden.model.errors import (
    BranchNotRestoredError,
    LakewardenError,
    PlanOutdatedError,
    TableMovedError,
    UnreadableMetadataError,
)
from lakewarden.model.table import TableState, name_within

THREADS = 16


class RefKeeper:
    """The branches of every table of one catalog."""

    def __init__(self, known: KnownVersions, versions: Callable[[], Versions]) -> None:
        """`versions` opens the catalog, or raises UnsupportedTableError for a kind that cannot be changed safely."""
        self._known = known
        self._versions = versions
        self._steady: tuple[tuple[str, int], tuple[Mapping[str, Any], bool]] | None = None

    def survey(self, states: Sequence[TableState]) -> list[BranchPlace]:
        return list(self._places(states))

    def _places(self, states: Sequence[TableState]) -> Iterator[BranchPlace]:
        for state in states:
            name, uuid, location = state.identifier, state.uuid, state.metadata_location
            if state.refusal is not None:
                yield BranchPlace(name, uuid, location, refusal=state.refusal)
                continue
            try:
                self._versions()
                yield _place(name, self._known.loaded(location))
            except LakewardenError as error:
                yield BranchPlace(name, uuid, location, refusal=error.refusal())

    def look(self, identifier: str) -> BranchPlace | None:
        version = self._versions().current(name_within(identifier))
        state = table_state(identifier, version.location, version.document)
        if state.refusal is not None:
            return BranchPlace(identifier, state.uuid, version.location, refusal=state.refusal)
        return _place(identifier, version)

    def shows(self) -> str | None:
        return None

    def still_read(self, place: BranchPlace, sight: BranchSight) -> str | None:
        return None  # whoever reads the branch begins with the manifest list

    def unchanged_since(self, place: BranchPlace, sight: BranchSight, instant: datetime) -> bool | None:
        """By the version of the table that was current then and by all that came after it, as far as its log reaches back."""
        asked = (place.metadata_location, int(instant.timestamp() * 1000))
        # Many branches of a table are asked about, one after the other.
        steady = self._steady
        if steady is None or steady[0] != asked:
            self._steady = steady = (asked, self._refs_since(*asked))
        refs, whole = steady[1]
        return (whole or None) if refs.get(sight.name) == sight.record["ref"] else False

    def _refs_since(self, location: str, since_ms: int) -> tuple[Mapping[str, Any], bool]:
        """The refs that no version since then lacks or has otherwise, and whether the log reaches back so far.

        Somebody may have taken a ref away and made it again as it was: then a version in between does not have it.
        """
        try:
            document = self._known.loaded(location).document
            versions = [
                *((int(e["timestamp-ms"]), str(e["metadata-file"])) for e in document.get("metadata-log") or []),
                (int(document["last-updated-ms"]), location),
            ]
            # What comes after a younger version is younger too, whatever the clock of its writer said.
            then = sum(1 for _ in takewhile(lambda version: version[0] <= since_ms, versions))
            asked = [at for _, at in versions[max(then - 1, 0) :]]
            with ThreadPoolExecutor(THREADS) as pool:
                found = list(pool.map(lambda at: refs_of(self._known.loaded(at).document), asked))
            now = found[-1]
            return {name: ref for name, ref in now.items() if all(refs.get(name) == ref for refs in found)}, then > 0
        except (LakewardenError, *GARBLED):
            return {}, False

    def remove(
        self, place: BranchPlace, names: Collection[str], now: datetime, properties: Mapping[str, str]
    ) -> Mapping[str, int]:
        versions, table = self._versions(), name_within(place.identifier)
        version = versions.current(table)
        if version.location != place.metadata_location:
            raise TableMovedError(f"{place.identifier} was committed to meanwhile; no branch of it was removed")
        try:
            versions.expire(table, version, (), names, now)
        except MovedOnError as error:
            raise TableMovedError(
                f"{place.identifier} was committed to meanwhile ({error}); no branch of it was removed"
            ) from error
        # Somebody else may have removed one in the same moment and made it anew: what is there now is theirs.
        if back := sorted(refs_of(versions.current(table).document).keys() & set(names)):
            raise TableMovedError(f"{place.identifier} has {', '.join(back)} again; what is there now was not removed")
        return {"refs": len(names)}

    def restore(self, identifier: str, record: Mapping[str, Any], now: datetime) -> None:
        versions, table, name = self._versions(), name_within(identifier), str(record["branch"])
        version = versions.current(table)
        if version.document.get("table-uuid") != record["uuid"]:
            raise BranchNotRestoredError(f"{identifier} was dropped and made again; branch {name} was not made")
        ref = record["ref"]
        taken = BranchNotRestoredError(f"{identifier} has a ref {name} again; it was left as it is")
        if name in refs_of(version.document):
            raise taken
        held = {int(snapshot["snapshot-id"]) for snapshot in version.document.get("snapshots") or []}
        if int(ref["snapshot-id"]) not in held:
            raise BranchNotRestoredError(
                f"snapshot {ref['snapshot-id']} of {identifier} has expired since; branch {name} was not made"
            )

        def make() -> None:
            try:
                versions.add_ref(table, version, name, ref, now)
            except MovedOnError as error:
                raise PlanOutdatedError(
                    f"{identifier} was committed to meanwhile ({error}); branch {name} was not made"
                ) from error

        def made() -> bool:
            found = refs_of(versions.current(table).document).get(name)
            if found is not None and found != ref:
                raise taken
            return found is not None

        changed(identifier, make, made)


def _place(identifier: str, version: Version) -> BranchPlace:
    """The branches of a table at one version. Raises UnreadableMetadataError."""
    document = version.document
    try:
        return BranchPlace(
            identifier,
            str(document["table-uuid"]),
            version.location,
            sights=tuple(branches_of(identifier, document)),
        )
    except GARBLED as error:
        reason = f"{version.location} lacks or garbles a field ({error}); nothing was touched"
        raise UnreadableMetadataError(reason) from error
