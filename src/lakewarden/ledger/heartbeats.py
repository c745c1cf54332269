"""Which writers are at work, so that files they have not committed yet are left alone."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select

from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.schema import heartbeats
from lakewarden.model.ports import Heartbeat


class Heartbeats:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def beat(self, heartbeat: Heartbeat) -> None:
        """Say that a writer is at work under one prefix, until its time to live has passed."""
        row = {
            "writer": heartbeat.writer,
            "table_name": heartbeat.table,
            "prefix": heartbeat.prefix,
            "since": heartbeat.since,
            "beat_at": heartbeat.beat_at,
            "ttl_seconds": heartbeat.ttl_seconds,
            "live_until": heartbeat.beat_at + timedelta(seconds=heartbeat.ttl_seconds),
        }
        with self._connections.write() as connection:
            put(connection, heartbeats, [row])

    def end(self, writer: str, table: str) -> None:
        """Say that a writer is done with a table, under all its prefixes."""
        mine = (heartbeats.c.writer == writer) & (heartbeats.c.table_name == table)
        with self._connections.write() as connection:
            connection.execute(delete(heartbeats).where(mine))

    def live(self, now: datetime) -> list[Heartbeat]:
        """The writers at work. The last instant of a heartbeat still counts: in doubt, keep."""
        query = select(heartbeats).where(heartbeats.c.live_until >= now)
        with self._connections.read() as connection:
            rows = connection.execute(query.order_by(heartbeats.c.writer, heartbeats.c.table_name, heartbeats.c.prefix))
            return [Heartbeat(r.writer, r.table_name, r.prefix, r.since, r.beat_at, r.ttl_seconds) for r in rows]
