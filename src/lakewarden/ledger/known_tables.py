"""What is remembered of every table that was ever seen. A table that cannot be seen needs whatever stands here."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import case, delete, select, update

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
            rows = connection.execute(select(known_tables)).mappings()
            return Memory(KnownTable(**{**row, **{name: tuple(row[name]) for name in _LISTS}}) for row in rows)

    def record(self, seen: Iterable[KnownTable], gone: Iterable[KnownTable] = ()) -> None:
        """Remember what a plan saw, and forget what is gone for certain, all or none."""
        rows = {row.key: row._asdict() for row in seen}
        forgotten = [row.key for row in gone]
        if not rows and not forgotten:
            return
        with self._connections.write() as connection:
            for identifier, uuid in forgotten:
                mine = (known_tables.c.identifier == identifier) & (known_tables.c.uuid == uuid)
                connection.execute(delete(known_tables).where(mine))
            for chunk in chunks(rows.values(), CHUNK):
                put(connection, known_tables, [row | {name: list(row[name]) for name in _LISTS} for row in chunk])

    def released(self, identifier: str, uuid: str, files: int) -> None:
        """A run of ours let so many files of a table go: that it needs fewer from now on is no sign of a fault."""
        mine = (known_tables.c.identifier == identifier) & (known_tables.c.uuid == uuid)
        left = known_tables.c.live_files - files
        with self._connections.write() as connection:
            connection.execute(update(known_tables).where(mine).values(live_files=case((left > 0, left), else_=0)))
