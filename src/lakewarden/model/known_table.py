"""What is remembered of every table that was ever seen: where it had files, how many, and at which metadata."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from lakewarden.model.table import TableState


class KnownTable(NamedTuple):
    """One table under one name, as the last plans saw it.

    `roots`: every directory it ever wrote to. `outside_roots`: directories of other tables in which it ever had files.
    `metadata_location`: the metadata at which `outside_roots` were all there are, or at which the table could not be read
    when it was first met; None if neither.
    `seen_location`, `seen_ms`: the newest metadata at which the table was read with all its manifests, and when that was
    written; empty if it never was. `absent_since`: when its catalog was first found not to list it.
    `first_seen`: when a plan first met it under this name.
    """

    identifier: str
    uuid: str
    live_files: int
    live_bytes: int
    outside_roots: tuple[str, ...]
    at: datetime
    metadata_location: str | None = None
    roots: tuple[str, ...] = ()
    seen_location: str = ""
    seen_ms: int = 0
    absent_since: datetime | None = None
    first_seen: datetime | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.identifier, self.uuid

    @property
    def places(self) -> tuple[str, ...]:
        """Everything that the table ever touched."""
        return (*self.roots, *self.outside_roots)


class Memory:
    """Every known table. A table may have had another name when it was seen: then it is found by its uuid, or, where it
    cannot be read, by its metadata."""

    def __init__(self, rows: Iterable[KnownTable] = ()) -> None:
        self.rows = tuple(rows)
        self._keys = {row.key for row in self.rows}
        self._by_uuid: dict[str, KnownTable] = {}
        self._by_name: dict[str, KnownTable] = {}
        self._by_location: dict[str, KnownTable] = {}
        # Of two tables that had one name, the newer one counts.
        for row in sorted(self.rows, key=lambda row: row.at):
            self._by_name[row.identifier] = row
            if row.uuid:
                self._by_uuid[row.uuid] = row
            if row.seen_location:
                self._by_location[row.seen_location] = row

    def of(self, state: TableState) -> KnownTable | None:
        """What is known of this very table; None if it was never seen, or if another table had its name."""
        named = self._by_name.get(state.identifier)
        if named is not None and (named.uuid == state.uuid or not (named.uuid and state.uuid)):
            return named
        return self._by_uuid.get(state.uuid) if state.uuid else self._by_location.get(state.metadata_location)

    def has(self, identifier: str, uuid: str) -> bool:
        """Whether this very table was seen under this name."""
        return (identifier, uuid) in self._keys

    def named(self, identifier: str) -> KnownTable | None:
        """What is known of the table that last had this name."""
        return self._by_name.get(identifier)

    def places_of(self, state: TableState) -> tuple[str, ...]:
        """Everything that the table ever touched."""
        known = self.of(state)
        return known.places if known else ()
