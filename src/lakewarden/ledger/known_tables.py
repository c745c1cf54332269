"""What is remembered of every table that was ever seen. A table that cannot be seen needs whatever stands here."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, RowMapping, case, delete, select, update

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.schema import known_tables
from lakewarden.model.known_table import KnownTable, Memory

CHUNK = 1000
_LISTS = ("outside_roots", "roots")


class KnownTables:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def memory(self) -> Memory:
        """Every known table."""
        with self._connections.read() as connection:
            return Memory(map(_known, connection.execute(select(known_tables)).mappings()))

    def record(self, seen: Iterable[KnownTable], gone: Iterable[KnownTable] = ()) -> None:
        """Remember what a plan saw, and forget what is gone for certain, all or none."""
        rows = {row.key: row for row in seen}
        forgotten = [row.key for row in gone]
        if not rows and not forgotten:
            return
        with self._connections.write() as connection:
            for identifier, uuid in forgotten:
                mine = (known_tables.c.identifier == identifier) & (known_tables.c.uuid == uuid)
                connection.execute(delete(known_tables).where(mine))
            for chunk in chunks(rows.values(), CHUNK):
                there = self._there(connection, [row.identifier for row in chunk])
                merged = [_merged(row, there.get(row.key))._asdict() for row in chunk]
                put(connection, known_tables, [row | {name: list(row[name]) for name in _LISTS} for row in merged])

    def _there(self, connection: Connection, identifiers: list[str]) -> dict[tuple[str, str], KnownTable]:
        query = select(known_tables).where(known_tables.c.identifier.in_(identifiers))
        return {row.key: row for row in map(_known, connection.execute(query).mappings())}

    def released(self, identifier: str, uuid: str, files: int) -> None:
        """A run of ours let so many files of a table go: that it needs fewer from now on is no sign of a fault."""
        mine = (known_tables.c.identifier == identifier) & (known_tables.c.uuid == uuid)
        left = known_tables.c.live_files - files
        with self._connections.write() as connection:
            connection.execute(update(known_tables).where(mine).values(live_files=case((left > 0, left), else_=0)))


def _known(row: RowMapping) -> KnownTable:
    values = {str(name): value for name, value in row.items()}
    return KnownTable(**{**values, **{name: tuple(row[name]) for name in _LISTS}})


def _merged(row: KnownTable, there: KnownTable | None) -> KnownTable:
    """A row as it is written over one that another worker may have written meanwhile: places are only ever added, and the
    newer sight of the metadata counts."""
    if there is None:
        return row
    row = row._replace(
        roots=tuple(sorted({*row.roots, *there.roots})),
        outside_roots=tuple(sorted({*row.outside_roots, *there.outside_roots})),
    )
    if there.seen_ms <= row.seen_ms:
        return row
    return row._replace(
        seen_location=there.seen_location, seen_ms=there.seen_ms, metadata_location=there.metadata_location
    )
