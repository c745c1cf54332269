"""Which writers are at work, so that files they have not committed yet are left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import delete, select

from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.schema import heartbeats
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat

# Writers that died long ago are of no use to anybody.
FORGOTTEN = timedelta(days=30)


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
            "live_until": heartbeat.live_until,
        }
        forgotten = heartbeats.c.live_until < heartbeat.beat_at - FORGOTTEN
        with self._connections.write() as connection:
            connection.execute(delete(heartbeats).where(forgotten))
            put(connection, heartbeats, [row])

    def end(self, writer: str, table: str) -> None:
        """Say that a writer is done with a table, under all its prefixes."""
        mine = (heartbeats.c.writer == writer) & (heartbeats.c.table_name == table)
        with self._connections.write() as connection:
            connection.execute(delete(heartbeats).where(mine))

    def end_writer(self, writer: str) -> int:
        """Say that a writer is done with every table. How many heartbeats that ended."""
        with self._connections.write() as connection:
            return connection.execute(delete(heartbeats).where(heartbeats.c.writer == writer)).rowcount

    def live(self, now: datetime) -> list[Heartbeat]:
        """The writers at work. The last instant of a heartbeat still counts: in doubt, keep."""
        return self._since(now)

    def protecting(self, now: datetime) -> list[Heartbeat]:
        """Those, and the writers that fell silent a while ago without saying that they were done."""
        found = self._since(now - MARGINS.heartbeat_grace)
        return [beat if beat.live_until >= now else replace(beat, silent=True) for beat in found]

    def every(self) -> list[Heartbeat]:
        """Every heartbeat that was not ended, however long ago."""
        return self._since(None)

    def _since(self, alive: datetime | None) -> list[Heartbeat]:
        query = select(heartbeats) if alive is None else select(heartbeats).where(heartbeats.c.live_until >= alive)
        with self._connections.read() as connection:
            rows = connection.execute(query.order_by(heartbeats.c.writer, heartbeats.c.table_name, heartbeats.c.prefix))
            return [Heartbeat(r.writer, r.table_name, r.prefix, r.since, r.beat_at, r.ttl_seconds) for r in rows]
