"""Which plans were made, where they lie, and which run used each: a plan is used once."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, select, update

from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.counting import count_plan
from lakewarden.ledger.outbox import Outbox
from lakewarden.ledger.schema import plan_views, plans, runs
from lakewarden.model.errors import PlanUsedError
from lakewarden.model.plan import PartFile, Plan, sealed_parts
from lakewarden.model.plan_view import view_of
from lakewarden.model.webhooks import of_plan


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as the ledger knows it. One that was made elsewhere has only an id and its use."""

    plan_id: str
    job: str | None
    path: str | None
    created_at: datetime | None
    expires_at: datetime | None
    cutoff: datetime | None
    used_by: str | None
    used_at: datetime | None


PlanList = list[SavedPlan]
_SAVED = [plans.c[name] for name in SavedPlan.__dataclass_fields__]


class Plans:
    def __init__(self, connections: Connections, outbox: Outbox) -> None:
        self._connections = connections
        self._outbox = outbox

    def save(self, plan: Plan, path: str, header: bytes | None = None) -> None:
        """Remember a sealed plan and where it lies. Saving it again changes the place, never its use.

        `header`: what the plan's `dumps` gives, for whoever has it already.
        """
        if not plan.plan_id:
            raise ValueError("a plan is sealed before it is saved")
        row = {
            "plan_id": plan.plan_id,
            "job": plan.job,
            "path": path,
            "created_at": plan.created_at,
            "expires_at": plan.expires_at,
            "cutoff": plan.cutoff,
            "header": zlib.compress(header if header is not None else plan.dumps(), 6),
        }
        known = select(plans.c.created_at).where(plans.c.plan_id == plan.plan_id)
        with self._connections.write() as connection:
            if connection.execute(known).scalar() is None:
                # Once: a plan that is saved again was counted when it was made.
                count_plan(connection, plan)
                self._outbox.enter(connection, of_plan(plan))
            put(connection, plans, [row])
            put(connection, plan_views, [{"plan_id": plan.plan_id, "view": view_of(plan)}])

    def header(self, plan_id: str) -> Plan | None:
        """The whole header as it was saved, also when its directory is gone."""
        packed = self._header(plan_id)
        return Plan.loads(zlib.decompress(packed)) if packed else None

    def parts(self, plan_id: str) -> tuple[PartFile, ...]:
        """The files of a plan as its header names them; none of a plan that is not known."""
        packed = self._header(plan_id)
        return sealed_parts(zlib.decompress(packed)) if packed else ()

    def path(self, plan_id: str) -> str | None:
        """Where a plan lies; None for a plan that is not known."""
        found = self._first(plans.c.plan_id == plan_id)
        return found.path if found else None

    def _header(self, plan_id: str) -> bytes | None:
        with self._connections.read() as connection:
            found: bytes | None = connection.execute(select(plans.c.header).where(plans.c.plan_id == plan_id)).scalar()
        return found

    def get(self, plan_id: str) -> SavedPlan | None:
        """What is known of one plan."""
        return self._first(plans.c.plan_id == plan_id)

    def newest_before(self, job: str, instant: datetime) -> SavedPlan | None:
        """The newest plan of a job that was made at or before an instant: what a later plan is confirmed against."""
        return self._first((plans.c.job == job) & (plans.c.created_at <= instant))

    def claim(self, plan_id: str, run_id: str) -> str:
        """Mark the plan used by this run, and say which run to go on with.

        Of two that try at once, one wins. An earlier run that never finished keeps the plan: its id comes back, to be
        resumed. Raises PlanUsedError when a finished run used it. A plan made elsewhere is accepted, and then known.
        Claim before `runs.start`: a crash between the two leaves a claim whose run is unknown, which is resumed too.
        """
        free = (plans.c.plan_id == plan_id) & plans.c.used_by.is_(None)
        with self._connections.write() as connection:
            put(connection, plans, [{"plan_id": plan_id}])
            mine = {"used_by": run_id, "used_at": self._connections.clock.now()}
            if connection.execute(update(plans).where(free).values(mine)).rowcount == 1:
                return run_id
            used = connection.execute(_use_of(plan_id)).one()
        _check_open(plan_id, used)
        return str(used.used_by)

    def check_unused(self, plan_id: str) -> None:
        """Raise PlanUsedError when a finished run used the plan. Claims nothing."""
        with self._connections.read() as connection:
            used = connection.execute(_use_of(plan_id)).one_or_none()
        if used is not None:
            _check_open(plan_id, used)

    def list(self, job: str | None = None, limit: int = 50) -> PlanList:
        """The newest plans, newest first."""
        query = select(*_SAVED).where(plans.c.created_at.is_not(None))
        if job is not None:
            query = query.where(plans.c.job == job)
        with self._connections.read() as connection:
            rows = connection.execute(query.order_by(plans.c.created_at.desc(), plans.c.plan_id).limit(limit))
            return [_saved(row) for row in rows]

    def _first(self, condition: ColumnElement[bool]) -> SavedPlan | None:
        query = select(*_SAVED).where(condition).order_by(plans.c.created_at.desc(), plans.c.plan_id).limit(1)
        with self._connections.read() as connection:
            row = connection.execute(query).first()
        return _saved(row) if row else None


def _saved(row: Row[Any]) -> SavedPlan:
    return SavedPlan(**row._mapping)


def _use_of(plan_id: str) -> Select[Any]:
    """By which run a plan was used, when, and when that run ended."""
    use = select(plans.c.used_by, plans.c.used_at, runs.c.finished_at)
    return use.outerjoin(runs, runs.c.run_id == plans.c.used_by).where(plans.c.plan_id == plan_id)


def _check_open(plan_id: str, used: Row[Any]) -> None:
    if used.finished_at is not None:
        when = f"{used.used_at:%Y-%m-%d %H:%M} UTC"
        raise PlanUsedError(f"plan {plan_id} was used by run {used.used_by} on {when}; nothing was done")
