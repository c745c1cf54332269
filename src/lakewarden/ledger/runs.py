"""What ran: who asked, which plan, when it began and ended, what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from lakewarden.ledger.actors import actor_of, actor_values
from lakewarden.ledger.connection import Connections
from lakewarden.ledger.schema import runs, steps
from lakewarden.ledger.shared_commit import Rows, SharedCommit
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, StateError


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Without `finished_at` it is at work, or was stopped or died, and can be resumed."""

    run_id: str
    job: str
    plan_id: str | None
    status: str
    actor: Actor
    started_at: datetime
    finished_at: datetime | None = None
    result: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Something a run did, worth showing."""

    name: str
    detail: Any
    at: datetime


RUNNING, STOPPED = "running", "stopped"
"""Of a run that is not finished: at work, or ended by something that passes. The same apply goes on with it."""
RunList = list[Run]
StepList = list[Step]


class Runs:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._steps = SharedCommit(connections, _enter_steps)

    def start(self, run_id: str, job: str, plan_id: str | None, actor: Actor, status: str = RUNNING) -> None:
        """Record a new run. Raises StateError when the id is taken."""
        row = {"run_id": run_id, "job": job, "plan_id": plan_id, "status": status, **actor_values(actor)}
        with self._connections.write() as connection:
            if connection.execute(select(runs.c.run_id).where(runs.c.run_id == run_id)).first():
                raise StateError(f"run {run_id} exists already; nothing was recorded")
            connection.execute(insert(runs), row | {"started_at": self._connections.clock.now()})

    def finish(self, run_id: str, status: str, result: Mapping[str, Any]) -> None:
        """Close a run, once. Raises NotFoundError for an unknown run, StateError for one that is closed."""
        values = {"status": status, "result": dict(result), "finished_at": self._connections.clock.now()}
        unfinished = (runs.c.run_id == run_id) & runs.c.finished_at.is_(None)
        with self._connections.write() as connection:
            if connection.execute(update(runs).where(unfinished).values(values)).rowcount == 1:
                return
        earlier = self.get(run_id)
        if earlier is None:
            raise NotFoundError(f"there is no run {run_id}")
        raise StateError(f"run {run_id} was finished at {earlier.finished_at} as {earlier.status}; that stays")

    def mark(self, run_id: str, status: str) -> bool:
        """Say of a run that is not finished whether it is at work or stopped. False for a finished run, which stays."""
        unfinished = (runs.c.run_id == run_id) & runs.c.finished_at.is_(None)
        with self._connections.write() as connection:
            return connection.execute(update(runs).where(unfinished).values(status=status)).rowcount == 1

    def get(self, run_id: str) -> Run | None:
        """The run of that id."""
        with self._connections.read() as connection:
            row = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
        return run_of(row) if row else None

    def known(self) -> frozenset[str]:
        """The ids of all runs."""
        with self._connections.read() as connection:
            return frozenset(str(run_id) for run_id in connection.execute(select(runs.c.run_id)).scalars())

    def open_for_plan(self, plan_id: str) -> Run | None:
        """The newest run of this plan that never finished."""
        query = select(runs).where(runs.c.plan_id == plan_id, runs.c.finished_at.is_(None))
        with self._connections.read() as connection:
            row = connection.execute(query.order_by(runs.c.started_at.desc(), runs.c.run_id.desc()).limit(1)).first()
        return run_of(row) if row else None

    def step(self, run_id: str, name: str, detail: Mapping[str, Any] | str | None = None) -> None:
        """Note what the run does now."""
        row = {
            "run_id": run_id,
            "name": name,
            "detail": dict(detail) if isinstance(detail, Mapping) else detail,
            "at": self._connections.clock.now(),
        }
        self._steps.enter(row)

    def steps(self, run_id: str) -> StepList:
        """What a run noted, in order."""
        with self._connections.read() as connection:
            rows = connection.execute(select(steps).where(steps.c.run_id == run_id).order_by(steps.c.step_id)).all()
        return [Step(row.name, row.detail, row.at) for row in rows]

    def list(self, limit: int = 50, job: str | None = None) -> RunList:
        """The newest runs, newest first."""
        query = select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id.desc()).limit(limit)
        if job is not None:
            query = query.where(runs.c.job == job)
        with self._connections.read() as connection:
            return [run_of(row) for row in connection.execute(query)]


def _enter_steps(connection: Connection, rows: Rows) -> None:
    connection.execute(insert(steps), rows)


def run_of(row: Row[Any]) -> Run:
    """The run in a row of the runs table."""
    return Run(row.run_id, row.job, row.plan_id, row.status, actor_of(row), row.started_at, row.finished_at, row.result)
