"""`/api/v1/freeze`, `/unfreeze`, `/schedule`, `/forecast`, `/observe`: the deployment as a whole."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.api import shapes
from lakewarden.service.api.asks import ToRunner
from lakewarden.service.api.shapes import ERRORS, Glob, Open, Reason, told
from lakewarden.service.schedule.slots import DRILL

router = APIRouter(prefix="/api/v1", tags=["deployment"], responses=ERRORS)


class Why(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: Reason


class Narrowed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    select: list[Glob] = Field(min_length=1, max_length=1000)
    exclude: list[Glob] = Field(default_factory=list, max_length=1000)


class Frozen(Open):
    frozen: bool
    operator: str | None = None
    reason: str | None = None
    since: datetime | None = None


class Scheduled(Open):
    """One job: when it is due next and why, and what came of the last time."""

    job: str
    next_due: datetime | None
    why: str
    last_due: datetime | None
    last_request: str | None
    last_outcome: str | None


class Schedule(Open):
    jobs: list[Scheduled]


@router.get("/freeze")
def frozen(user: Viewer, service: Asked) -> Frozen:
    """Whether workers may begin a batch."""
    return _frozen(service)


@router.post("/freeze")
def freeze(user: Operator, service: Asked, body: Why) -> Frozen:
    """Stop every worker of this deployment before its next batch, commands too."""
    service.warden.freeze(user.actor(service), body.reason)
    return _frozen(service)


@router.post("/unfreeze")
def unfreeze(user: Operator, service: Asked) -> Frozen:
    """Let the workers go on."""
    service.warden.unfreeze(user.actor(service))
    return _frozen(service)


@router.get("/schedule")
def schedule(user: Viewer, service: Asked) -> Schedule:
    """Each job of the schedule, the next one first."""
    return Schedule(jobs=[Scheduled(**told(asdict(one))) for one in service.ledger.schedules.list()])


@router.post("/forecast", status_code=202)
def forecast(user: Operator, runner: ToRunner, body: Narrowed) -> shapes.Asked:
    """Ask a runner what expiry would release of some tables, at each of several retentions. Changes nothing."""
    given = {"select": body.select, **({"exclude": body.exclude} if body.exclude else {})}
    return runner.ask(user, RequestKind.FORECAST, arguments=given)


@router.post("/observe", status_code=202)
def observe(user: Operator, runner: ToRunner) -> shapes.Asked:
    """Ask a runner to look at every table again."""
    return runner.ask(user, RequestKind.OBSERVE)


@router.post("/restore-drill", status_code=202)
def restore_drill(user: Operator, runner: ToRunner) -> shapes.Asked:
    """Ask a runner to prove that a quarantined file and a cold snapshot come back. No table is changed."""
    return runner.ask(user, RequestKind.RESTORE_DRILL, job=DRILL)


def _frozen(service: Asked) -> Frozen:
    found = service.ledger.switches.frozen()
    if found is None:
        return Frozen(frozen=False)
    return Frozen(**told({"frozen": True, "operator": found.who, "reason": found.reason, "since": found.when}))
