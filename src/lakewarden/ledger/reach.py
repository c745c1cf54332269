"""What the last good plan saw of each table: the measure for "its reachable set shrank" and for unreadable tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.schema import reach

CHUNK = 1000


class Reach(NamedTuple):
    """One table's live files at one plan. `outside_roots`: prefixes of other tables where some of them lie.

    `metadata_location`: the metadata at which those were all that there are; None if that was never known.
    """

    identifier: str
    uuid: str
    live_files: int
    live_bytes: int
    outside_roots: tuple[str, ...]
    at: datetime
    metadata_location: str | None = None


class Reaches:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def record(self, seen: Iterable[Reach | tuple[str, str, int, int, tuple[str, ...], datetime]]) -> None:
        """Remember what a good plan saw, all or none."""
        rows = {(row.identifier, row.uuid): row._asdict() for row in (Reach(*entry) for entry in seen)}
        with self._connections.write() as connection:
            for chunk in chunks(rows.values(), CHUNK):
                put(connection, reach, [row | {"outside_roots": list(row["outside_roots"])} for row in chunk])

    def last(self, identifiers: Iterable[str] | None = None) -> dict[str, Reach]:
        """By identifier, what was seen last; of a name that was dropped and made again, the newer table. None: all."""
        query = select(reach).order_by(reach.c.at)
        found: dict[str, Reach] = {}
        with self._connections.read() as connection:
            if identifiers is None:
                pages = [query]
            else:
                pages = [query.where(reach.c.identifier.in_(chunk)) for chunk in chunks(identifiers, CHUNK)]
            for page in pages:
                for row in connection.execute(page):
                    seen = Reach(**row._mapping)
                    found[seen.identifier] = seen._replace(outside_roots=tuple(seen.outside_roots))
        return found
