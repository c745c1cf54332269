"""Which writers are at work, so that files they have not committed yet are left alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, delete, func, select, update

from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.schema import heartbeats
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat

# Writers that died long ago are of no use to anybody.
FORGOTTEN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class BeatRecord:
    """A heartbeat with whose it is, and who ended it before its time. One that was made straight in the state is nobody's."""

    beat: Heartbeat
    made_by: str | None
    ended_at: datetime | None
    ended_by: str | None


class Heartbeats:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def beat(self, heartbeat: Heartbeat) -> datetime | None:
        """Say that a writer is at work under one prefix, until its time to live has passed. When it last said so; None if it
        did not, or so long ago that it protects nothing any more.

        Of two that go by one name, such as two processes of one machine, the earlier beginning counts: what either has
        written since then may not be committed yet.
        """
        row = {
            "writer": heartbeat.writer,
            "table_name": heartbeat.table,
            "prefix": heartbeat.prefix,
            "since": heartbeat.since,
            "beat_at": heartbeat.beat_at,
            "ttl_seconds": heartbeat.ttl_seconds,
            "live_until": heartbeat.live_until,
            "ended_at": None,
            "ended_by": None,
        }
        others = select(func.max(heartbeats.c.live_until)).where(heartbeats.c.writer != heartbeat.writer)
        protecting = heartbeats.c.live_until >= heartbeat.beat_at - MARGINS.heartbeat_grace
        before = select(heartbeats.c.since, heartbeats.c.beat_at).where(_same(heartbeat), protecting)
        with self._connections.write() as connection:
            if (newest := connection.execute(others).scalar()) is not None:
                # Two clocks have to agree: one writer's that is a month ahead must not end what protects all others.
                long_ago = min(heartbeat.beat_at, newest) - FORGOTTEN
                connection.execute(delete(heartbeats).where(heartbeats.c.live_until < long_ago))
            found = connection.execute(before).first()
            since = min(heartbeat.since, found.since) if found else heartbeat.since
            put(connection, heartbeats, [row | {"since": since}])
        return found.beat_at if found else None

    def begun_by(self, heartbeat: Heartbeat, name: str) -> None:
        """Remember whose a heartbeat is that has just begun. One that somebody has made already stays theirs."""
        begun = heartbeats.c.made_by.is_(None) & (heartbeats.c.since == heartbeat.beat_at)
        with self._connections.write() as connection:
            connection.execute(update(heartbeats).where(_same(heartbeat), begun).values(made_by=name))

    def end(self, heartbeat: Heartbeat) -> None:
        """Say that a writer is done under one prefix, unless another that goes by its name has beaten since."""
        mine = _same(heartbeat) & (heartbeats.c.beat_at == heartbeat.beat_at)
        with self._connections.write() as connection:
            connection.execute(delete(heartbeats).where(mine))

    def cut_short(self, heartbeat: Heartbeat, name: str, now: datetime) -> None:
        """End a heartbeat on somebody's word. It protects for the grace from now on: the word may be wrong, or the writer's
        commit still be on its way."""
        seconds = max(0, min(heartbeat.ttl_seconds, int((now - heartbeat.beat_at).total_seconds())))
        ended = replace(heartbeat, ttl_seconds=seconds)
        values = {"ttl_seconds": seconds, "live_until": ended.live_until, "ended_at": now, "ended_by": name}
        with self._connections.write() as connection:
            connection.execute(update(heartbeats).where(_same(heartbeat)).values(values))

    def live(self, now: datetime) -> list[Heartbeat]:
        """The writers at work. The last instant of a heartbeat still counts: in doubt, keep."""
        return [one.beat for one in self._since(now) if one.ended_at is None]

    def protecting(self, now: datetime) -> list[Heartbeat]:
        """Those, and the writers that fell silent a while ago without saying that they were done, or were said to be."""
        return [one.beat for one in self.records(now)]

    def records(self, now: datetime) -> list[BeatRecord]:
        """The heartbeats that protect, with whose they are."""
        found = self._since(now - MARGINS.heartbeat_grace)
        return [one if _is_live(one, now) else replace(one, beat=replace(one.beat, silent=True)) for one in found]

    def every(self) -> list[Heartbeat]:
        """Every heartbeat that was not ended, however long ago."""
        return [one.beat for one in self._since(None) if one.ended_at is None]

    def _since(self, alive: datetime | None) -> list[BeatRecord]:
        query = select(heartbeats) if alive is None else select(heartbeats).where(heartbeats.c.live_until >= alive)
        with self._connections.read() as connection:
            rows = connection.execute(query.order_by(heartbeats.c.writer, heartbeats.c.table_name, heartbeats.c.prefix))
            return [_record(row) for row in rows]


def _is_live(record: BeatRecord, now: datetime) -> bool:
    return record.ended_at is None and record.beat.live_until >= now


def _same(beat: Heartbeat) -> Any:
    columns = heartbeats.c
    return (columns.writer == beat.writer) & (columns.table_name == beat.table) & (columns.prefix == beat.prefix)


def _record(row: Row[Any]) -> BeatRecord:
    beat = Heartbeat(row.writer, row.table_name, row.prefix, row.since, row.beat_at, row.ttl_seconds)
    return BeatRecord(beat, row.made_by, row.ended_at, row.ended_by)
