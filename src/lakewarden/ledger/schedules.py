"""When each job is due next and why, and what came of the last time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select, update

from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.service_schema import schedules


@dataclass(frozen=True, slots=True)
class Schedule:
    """One job of the schedule. `why` says in words why it is due then, is late, or is left out.

    `quiet_runs` counts the runs in a row that had nothing to do: an adaptive schedule visits such a job less often.
    """

    job: str
    next_due: datetime | None
    why: str
    last_due: datetime | None = None
    last_request: str | None = None
    last_outcome: str | None = None
    quiet_runs: int = 0
    updated_at: datetime | None = None


class Schedules:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def get(self, job: str) -> Schedule | None:
        with self._connections.read() as connection:
            row = connection.execute(select(schedules).where(schedules.c.job == job)).first()
        return _schedule(row) if row else None

    def list(self) -> list[Schedule]:
        """Every job of the schedule, the next one first."""
        query = select(schedules).order_by(schedules.c.next_due.is_(None), schedules.c.next_due, schedules.c.job)
        with self._connections.read() as connection:
            return [_schedule(row) for row in connection.execute(query)]

    def put(self, schedule: Schedule) -> None:
        """Remember what is known of one job's schedule now."""
        row = asdict(schedule) | {"updated_at": self._connections.clock.now()}
        with self._connections.write() as connection:
            put(connection, schedules, [row])

    def ended(self, job: str, request_id: str, outcome: str, *, quiet: bool) -> None:
        """Note what came of the job's last request. `quiet`: it had nothing to do."""
        mine = (schedules.c.job == job) & (schedules.c.last_request == request_id)
        values: dict[str, Any] = {"last_outcome": outcome, "updated_at": self._connections.clock.now()}
        values["quiet_runs"] = schedules.c.quiet_runs + 1 if quiet else 0
        with self._connections.write() as connection:
            connection.execute(update(schedules).where(mine).values(values))


def _schedule(row: Row[Any]) -> Schedule:
    return Schedule(**row._mapping)
