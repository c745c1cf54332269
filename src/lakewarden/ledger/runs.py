"""What ran: who asked, which plan, when it began and ended, what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, insert, select, update

from lakewarden.ledger.actors import actor_of, actor_values
from lakewarden.ledger.connection import Connections
from lakewarden.ledger.counting import count_run, count_stop
from lakewarden.ledger.outbox import Outbox
from lakewarden.ledger.schema import runs, steps
from lakewarden.ledger.shared_commit import Rows, SharedCommit
from lakewarden.ledger.statuses import RUNNING, STOPPED
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, StateBehindError, StateError
from lakewarden.model.webhooks import of_run


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Without `finished_at` it is at work, or was stopped or died, and can be resumed.

    `marks` counts what it has left in the state location (ledger/marks.py).
    """

    run_id: str
    job: str
    plan_id: str | None
    status: str
    actor: Actor
    started_at: datetime
    finished_at: datetime | None = None
    result: dict[str, Any] | None = None
    marks: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Something a run did, worth showing."""

    name: str
    detail: Any
    at: datetime


class _Tail(NamedTuple):
    """The newest that this process wrote of a run, and found written."""

    marks: int = 0
    step_id: int = 0
    at: datetime | None = None


RunList = list[Run]
StepList = list[Step]


class Runs:
    def __init__(self, connections: Connections, outbox: Outbox) -> None:
        self._connections = connections
        self._outbox = outbox
        self._steps = SharedCommit(connections, self._enter_steps)
        self._tails: dict[str, _Tail] = {}

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
            self._check_tail(connection, run_id)
            finished = connection.execute(update(runs).where(unfinished).values(values)).rowcount == 1
            if finished:
                # In the same transaction: a run is closed once, so it is counted once.
                count_run(connection, run_id)
                self._tell(connection, run_id)
        if finished:
            self._tails.pop(run_id, None)
            return
        earlier = self.get(run_id)
        if earlier is None:
            raise NotFoundError(f"there is no run {run_id}")
        raise StateError(f"run {run_id} was finished at {earlier.finished_at} as {earlier.status}; that stays")

    def mark(self, run_id: str, status: str) -> bool:
        """Say of a run that is not finished whether it is at work or stopped. False for a finished run, which stays."""
        unfinished = (runs.c.run_id == run_id) & runs.c.finished_at.is_(None)
        with self._connections.write() as connection:
            if status == STOPPED:
                count_stop(connection, run_id)
            return connection.execute(update(runs).where(unfinished).values(status=status)).rowcount == 1

    def get(self, run_id: str) -> Run | None:
        """The run of that id."""
        with self._connections.read() as connection:
            row = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
        return run_of(row) if row else None

    def add_mark(self, run_id: str) -> int:
        """Note that the run is about to leave one more mark in the state location, and say the how manieth it is."""
        mine = runs.c.run_id == run_id
        with self._connections.write() as connection:
            tail = self._check_tail(connection, run_id)
            if connection.execute(update(runs).where(mine).values(marks=runs.c.marks + 1)).rowcount != 1:
                raise NotFoundError(f"there is no run {run_id}")
            number = int(connection.execute(select(runs.c.marks).where(mine)).scalar_one())
        self._tails[run_id] = tail._replace(marks=number)
        return number

    def marks(self) -> dict[str, int]:
        """By the id of every run, how many marks of it the database knows of."""
        with self._connections.read() as connection:
            return {row.run_id: row.marks for row in connection.execute(select(runs.c.run_id, runs.c.marks))}

    def open_for_plan(self, plan_id: str) -> Run | None:
        """The newest run of this plan that never finished."""
        query = select(runs).where(runs.c.plan_id == plan_id, runs.c.finished_at.is_(None))
        with self._connections.read() as connection:
            row = connection.execute(query.order_by(runs.c.started_at.desc(), runs.c.run_id.desc()).limit(1)).first()
        return run_of(row) if row else None

    def unfinished(self, job: str) -> RunList:
        """The runs of a job that never finished, oldest first."""
        query = select(runs).where(runs.c.job == job, runs.c.finished_at.is_(None))
        with self._connections.read() as connection:
            return [run_of(row) for row in connection.execute(query.order_by(runs.c.started_at, runs.c.run_id))]

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

    def list(self, limit: int | None = 50, job: str | None = None) -> RunList:
        """The newest runs, newest first; all of them without a limit."""
        query = select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id.desc()).limit(limit)
        if job is not None:
            query = query.where(runs.c.job == job)
        with self._connections.read() as connection:
            return [run_of(row) for row in connection.execute(query)]

    def _tell(self, connection: Connection, run_id: str) -> None:
        row = connection.execute(select(runs).where(runs.c.run_id == run_id)).one()
        self._outbox.enter(connection, of_run(run_id, row.job, row.plan_id, row.status, row.result or {}))

    def _enter_steps(self, connection: Connection, rows: Rows) -> None:
        of = {row["run_id"]: row["at"] for row in rows}
        tails = {run_id: self._check_tail(connection, run_id) for run_id in of}
        connection.execute(insert(steps), rows)
        for run_id, at in of.items():
            newest = connection.execute(select(func.max(steps.c.step_id)).where(steps.c.run_id == run_id)).scalar_one()
            self._tails[run_id] = tails[run_id]._replace(step_id=newest, at=at)

    def _check_tail(self, connection: Connection, run_id: str) -> _Tail:
        """What this process wrote last of a run. Raises StateBehindError if the database does not hold it any more.

        A server that fails over to a standby which was behind loses the last transactions. What is written in one order
        is lost in that order: while the last is there, so is everything before it, such as what a run released.
        """
        tail = self._tails.get(run_id, _Tail())
        marks = connection.execute(select(runs.c.marks).where(runs.c.run_id == run_id)).scalar()
        step = select(steps.c.at).where(steps.c.step_id == tail.step_id, steps.c.run_id == run_id)
        if (marks or 0) < tail.marks or (tail.step_id and connection.execute(step).scalar() != tail.at):
            raise StateBehindError(
                f"the state database went back to an older state: what run {run_id} wrote a moment ago is not there any "
                "more; the run was stopped, and what it has changed stands"
            )
        return tail


def run_of(row: Row[Any]) -> Run:
    """The run in a row of the runs table."""
    return Run(
        run_id=row.run_id,
        job=row.job,
        plan_id=row.plan_id,
        status=row.status,
        actor=actor_of(row),
        started_at=row.started_at,
        finished_at=row.finished_at,
        result=row.result,
        marks=row.marks,
    )
