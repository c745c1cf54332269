"""Which writers are at work, so that files they have not committed yet are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, delete, func, select, update

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
        """Say that a writer is at work under one prefix, as `beat_all` does."""
        return self.beat_all([heartbeat])[0]

    def beat_all(self, beats: Sequence[Heartbeat]) -> list[datetime | None]:
        """Say that writers are at work, each under one prefix, until its time to live has passed. When each last said so; None
        if it did not, or so long ago that it protects nothing any more.

        Of two that go by one name, such as two processes of one machine, the earlier beginning counts: what either has
        written since then may not be committed yet.
        """
        if not beats:
            return []
        writers, earliest = {beat.writer for beat in beats}, min(beat.beat_at for beat in beats)
        others = select(func.max(heartbeats.c.live_until)).where(heartbeats.c.writer.not_in(writers))
        protecting = heartbeats.c.live_until >= earliest - MARGINS.heartbeat_grace
        before = select(heartbeats).where(heartbeats.c.writer.in_(writers), protecting)
        with self._connections.write() as connection:
            if (newest := connection.execute(others).scalar()) is not None:
                # Two clocks have to agree: one writer's that is a month ahead must not end what protects all others.
                long_ago = min(earliest, newest) - FORGOTTEN
                connection.execute(delete(heartbeats).where(heartbeats.c.live_until < long_ago))
            known = {(row.writer, row.table_name, row.prefix): row for row in connection.execute(before)}
            found = [_last(known.get((beat.writer, beat.table, beat.prefix)), beat) for beat in beats]
            rows = [_row(beat, last) for beat, last in zip(beats, found, strict=True)]
            # Always in one order: whoever beats for the same places meanwhile waits for them, and holds none that is waited for.
            put(connection, heartbeats, sorted(rows, key=lambda row: (row["writer"], row["table_name"], row["prefix"])))
        return [last.beat_at if last else None for last in found]

    def begun_by(self, heartbeat: Heartbeat, name: str) -> None:
        """Remember whose a heartbeat is that has just begun. One that somebody has made already stays theirs."""
        begun = heartbeats.c.made_by.is_(None) & (heartbeats.c.since == heartbeat.beat_at)
        with self._connections.write() as connection:
            connection.execute(update(heartbeats).where(_same(heartbeat), begun).values(made_by=name))

    def end(self, heartbeat: Heartbeat) -> None:
        """Say that a writer is done under one prefix, as `end_all` does."""
        self.end_all([heartbeat])

    def end_all(self, beats: Sequence[Heartbeat]) -> None:
        """Say that writers are done, each under one prefix, unless another that goes by its name has beaten since."""
        mine = (
            (heartbeats.c.writer == bindparam("its_writer"))
            & (heartbeats.c.table_name == bindparam("its_table"))
            & (heartbeats.c.prefix == bindparam("its_prefix"))
            & (heartbeats.c.beat_at == bindparam("its_beat"))
        )
        ended = [
            {"its_writer": beat.writer, "its_table": beat.table, "its_prefix": beat.prefix, "its_beat": beat.beat_at}
            for beat in beats
        ]
        if ended:
            with self._connections.write() as connection:
                connection.execute(delete(heartbeats).where(mine), ended)

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


def _last(row: Row[Any] | None, beat: Heartbeat) -> Row[Any] | None:
    """What was written of the same before, unless it protects nothing any more by the time of this beat."""
    return row if row is not None and row.live_until >= beat.beat_at - MARGINS.heartbeat_grace else None


def _row(beat: Heartbeat, last: Row[Any] | None) -> dict[str, Any]:
    return {
        "writer": beat.writer,
        "table_name": beat.table,
        "prefix": beat.prefix,
        "since": min(beat.since, last.since) if last is not None else beat.since,
        "beat_at": beat.beat_at,
        "ttl_seconds": beat.ttl_seconds,
        "live_until": beat.live_until,
        "ended_at": None,
        "ended_by": None,
    }


def _same(beat: Heartbeat) -> Any:
    columns = heartbeats.c
    return (columns.writer == beat.writer) & (columns.table_name == beat.table) & (columns.prefix == beat.prefix)


def _record(row: Row[Any]) -> BeatRecord:
    beat = Heartbeat(row.writer, row.table_name, row.prefix, row.since, row.beat_at, row.ttl_seconds)
    return BeatRecord(beat, row.made_by, row.ended_at, row.ended_by)
