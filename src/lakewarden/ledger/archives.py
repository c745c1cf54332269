"""Metadata of tables as it was before an expiry run changed it: what history and the cold tier are made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.schema import archives
from lakewarden.ledger.shared_commit import Rows, SharedCommit


@dataclass(frozen=True, slots=True)
class Archive:
    """One table's metadata document, kept at `uri` before `run_id` expired `snapshots` of it."""

    run_id: str
    table_name: str
    uuid: str
    uri: str
    sha256: str
    snapshots: tuple[int, ...]
    archived_at: datetime


class Archives:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._entries = SharedCommit(connections, _enter)

    def add(self, archive: Archive) -> None:
        """Enter one; a run that is resumed enters the same again."""
        self._entries.enter(asdict(archive) | {"snapshots": list(archive.snapshots)})

    def of(self, uuid: str) -> list[Archive]:
        """A table's archives, oldest first."""
        query = select(archives).where(archives.c.uuid == uuid).order_by(archives.c.archived_at, archives.c.run_id)
        with self._connections.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [Archive(**{**row, "snapshots": tuple(row["snapshots"])}) for row in rows]


def _enter(connection: Connection, rows: Rows) -> None:
    put(connection, archives, rows)
