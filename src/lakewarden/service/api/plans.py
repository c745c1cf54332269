"""`/api/v1/plans`: ask for a plan, read it, leaf through its files, compare it, decide on it, apply it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator

from lakewarden.jobs.registry import job_named
from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.errors import NotFoundError, UsageError
from lakewarden.model.plan import PartFile
from lakewarden.model.service import RequestKind
from lakewarden.model.verdict import Brake, Verdict
from lakewarden.service.access import Approver, Asked, Operator, Viewer
from lakewarden.service.api import shapes
from lakewarden.service.api.asks import ToRunner, asked
from lakewarden.service.api.shapes import ERRORS, Glob, Id, Limit, Offset, Open, Reason, Search, Word, told
from lakewarden.service.approval import approve, reject
from lakewarden.service.service import Service
from lakewarden.steps.plan.paged import Wanted, plan_page

router = APIRouter(prefix="/api/v1", tags=["plans"], responses=ERRORS)
# Two plans with more files than this are compared by `lakewarden diff`: an answer would take minutes.
MOST_COMPARED = 400_000


class NewPlan(BaseModel):
    model_config = ConfigDict(extra="forbid")

    job_type: Word = Field(examples=["orphan-cleanup"])
    select: list[Glob] = Field(default_factory=list, max_length=1000)
    exclude: list[Glob] = Field(default_factory=list, max_length=1000)


class Decided(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: Reason


class Application(BaseModel):
    model_config = ConfigDict(extra="forbid")

    override_brakes: list[Word] = Field(default_factory=list, max_length=20, examples=[["orphan-share"]])

    @field_validator("override_brakes")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        if unknown := set(names) - set(Brake):
            raise ValueError(f"there is no brake {min(unknown)}; there are {', '.join(Brake)}")
        return names


class Plan(Open):
    """A plan: when it was made, what would change, and whether it was used."""

    plan_id: str
    job: str | None
    created_at: datetime | None
    expires_at: datetime | None
    used_by: str | None
    summary: dict[str, Any] | None


class Plans(Open):
    plans: list[Plan]
    total: int
    offset: int
    limit: int


class PlanFiles(Open):
    """Some files of a plan. `next_cursor` is where the next page begins; None on the last one."""

    files: list[dict[str, Any]]
    total: int
    cut: bool = Field(description="Only the first files of the plan were looked at.")
    next_cursor: str | None


class Differences(Open):
    added: list[str]
    removed: list[str]
    changed_tables: list[str]


class Decision(Open):
    plan_id: str
    decision: str
    operator: str
    reason: str
    at: datetime


@router.post("/plans", status_code=202)
def make(user: Operator, runner: ToRunner, body: NewPlan) -> shapes.Asked:
    """Ask a runner to plan a job. Changes nothing in the lake."""
    job = str(job_named(body.job_type).name)
    return runner.ask(user, RequestKind.PLAN, job=job, arguments=_narrowed(body.select, body.exclude))


@router.get("/plans")
def plans(user: Viewer, service: Asked, job: Word | None = None, offset: Offset = 0, limit: Limit = 50) -> Plans:
    """The plans that this deployment made, newest first."""
    found, total = service.ledger.activity.plans(job=job, offset=offset, limit=limit)
    rows = [_plan(one.saved, _summary(one.view)) for one in found]
    return Plans(plans=rows, total=total, offset=offset, limit=limit)


@router.get("/plans/{plan_id}")
def plan(user: Viewer, service: Asked, plan_id: Id) -> Plan:
    """One plan: its sums, its largest tables, why others were refused, and what somebody decided on it."""
    saved, view = _known(service, plan_id)
    decided = service.ledger.approvals.get(plan_id)
    shown = {name: value for name, value in view.items() if name not in ("parts", "hidden")}
    return _plan(saved, shown, decision=_decision(decided) if decided else None)


@router.get("/plans/{plan_id}/files")
def files(
    user: Viewer,
    service: Asked,
    plan_id: Id,
    verdict: Verdict | None = None,
    search: Search = "",
    cursor: Annotated[str, Query(pattern=r"^\d{1,12}$", description="`next_cursor` of the page before.")] = "0",
    limit: Limit = 100,
) -> PlanFiles:
    """The files of a plan with their verdicts and the reason of each."""
    saved, view = _known(service, plan_id)
    parts = [PartFile(**part) for part in view["parts"]]
    wanted = Wanted(verdict or "", search, view["hidden"])
    offset = int(cursor)
    found = plan_page(service.stores, str(saved.path), parts, wanted, offset, limit)
    after = offset + len(found.rows)
    more = str(after) if found.rows and after < found.total else None
    return PlanFiles(files=told(found.rows), total=found.total, cut=found.cut, next_cursor=more)


@router.get("/plans/{plan_id}/diff")
def diff(
    user: Viewer, service: Asked, plan_id: Id, to: Annotated[Word, Query(description="Another plan.")]
) -> Differences:
    """What the plan `to` would change that this one would not, and the reverse."""
    (saved, view), (other, its) = _known(service, plan_id), _known(service, to)
    if (files := view["rows"] + its["rows"]) > MOST_COMPARED:
        raise UsageError(
            f"the two plans have {files:,} files, more than are compared here",
            hint="`lakewarden diff PLAN_A PLAN_B` compares them.",
        )
    return Differences(**service.warden.diff(str(saved.path), str(other.path)).as_json())


@router.post("/plans/{plan_id}/approve", status_code=202)
def agree(user: Approver, service: Asked, plan_id: Id, body: Decided) -> shapes.Asked:
    """Agree to a plan that somebody else made: it is recorded, and a runner applies the plan."""
    made = approve(service.ledger, service.new_id(), plan_id, user.actor(service), body.reason)
    return asked(made)


@router.post("/plans/{plan_id}/reject")
def disagree(user: Approver, service: Asked, plan_id: Id, body: Decided) -> Decision:
    """Decide that a plan is not applied."""
    reject(service.ledger, plan_id, user.actor(service), body.reason)
    found = service.ledger.approvals.get(plan_id)
    if found is None:
        raise NotFoundError(f"there is no decision on plan {plan_id}")
    return Decision(**_decision(found))


@router.post("/plans/{plan_id}/apply", status_code=202)
def apply(user: Operator, service: Asked, runner: ToRunner, plan_id: Id, body: Application) -> shapes.Asked:
    """Ask a runner to do what a plan says, once, and only ever less than it says. Where its job wants an approval, it waits."""
    saved, _ = _known(service, plan_id)
    arguments = {"plan": saved.path, **({"override_brakes": body.override_brakes} if body.override_brakes else {})}
    return runner.ask(user, RequestKind.APPLY, job=saved.job, plan_id=plan_id, arguments=arguments)


def _narrowed(select: list[str], exclude: list[str]) -> dict[str, list[str]]:
    return {name: value for name, value in (("select", select), ("exclude", exclude)) if value}


def _known(service: Service, plan_id: str) -> tuple[SavedPlan, dict[str, Any]]:
    saved = service.ledger.plans.get(plan_id)
    view = service.ledger.activity.view(plan_id) if saved and saved.path else None
    if saved is None or view is None:
        raise NotFoundError(f"there is no plan {plan_id}", hint="GET /api/v1/plans lists those of this deployment.")
    return saved, view


def _summary(view: dict[str, Any] | None) -> dict[str, Any] | None:
    names = ("changing", "totals", "tables", "refused", "braked", "brakes", "actor")
    return {name: view[name] for name in names} if view else None


def _plan(saved: SavedPlan, summary: dict[str, Any] | None, **more: Any) -> Plan:
    # Where a plan lies is the deployment's own business.
    document = {name: value for name, value in asdict(saved).items() if name != "path"}
    return Plan(**told({**document, "summary": summary, **more}))


def _decision(found: Any) -> dict[str, Any]:
    return {
        "plan_id": found.plan_id,
        "decision": str(found.decision),
        "operator": found.actor.operator,
        "reason": found.reason,
        "at": found.at,
    }
