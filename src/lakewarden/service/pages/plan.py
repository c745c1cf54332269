"""One plan: what it would change, its files, how it differs from the last one, and what somebody decided on it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.errors import NotFoundError, UsageError
from lakewarden.model.plan_view import View
from lakewarden.model.service import Decision, RequestKind
from lakewarden.service.access import Approver, Asked, Operator, Viewer
from lakewarden.service.approval import approve, reject
from lakewarden.service.html.asks import ask
from lakewarden.service.html.page import Said, page, see
from lakewarden.service.html.paging import place_of
from lakewarden.service.html.plan import MOST_COMPARED, before, plan_content
from lakewarden.service.service import Service

router = APIRouter(include_in_schema=False)


@router.get("/plans/{plan_id}")
def show(plan_id: str, request: Request, service: Asked, user: Viewer) -> Response:
    saved, view = _plan(service, plan_id)
    said = request.query_params
    verdict = said.get("verdict", "") if said.get("verdict") in view["totals"]["verdicts"] else ""
    content = plan_content(
        service, user, saved, view, verdict, said.get("search", "").strip(), place_of(said.get("offset"))
    )
    return page(request, service, user, "plan.html", {"heading": f"Plan of {saved.job}", **content}, here="/plans")


@router.get("/plans/{plan_id}/diff")
def diff(plan_id: str, request: Request, service: Asked, user: Viewer) -> Response:
    """What this plan would change that the job's last one would not, and the reverse."""
    saved, view = _plan(service, plan_id)
    older = before(service, saved)
    if older is None or older.path is None or saved.path is None:
        raise NotFoundError(f"there is no plan of {saved.job} before {plan_id} to compare with")
    _, other = _plan(service, older.plan_id)
    if view["rows"] + other["rows"] > MOST_COMPARED:
        raise UsageError(
            f"the two plans have {view['rows'] + other['rows']:,} files, more than a page compares",
            hint=f"lakewarden diff {older.path} {saved.path} compares them.",
        )
    found = service.warden.diff(older.path, saved.path)
    content = {"heading": "What changed since the last plan", "saved": saved, "older": older, "diff": found}
    return page(request, service, user, "plan_diff.html", content, here="/plans")


@router.post("/plans/{plan_id}/decide")
def decide(
    plan_id: str,
    service: Asked,
    user: Approver,
    decision: Annotated[Decision, Form()],
    reason: Said = "",
) -> Response:
    """Agree with a plan, or reject it. The planner cannot: that is what the second pair of eyes is for."""
    _plan(service, plan_id)
    actor, why = user.actor(service), reason.strip()[:300]
    if decision is Decision.REJECTED:
        reject(service.ledger, plan_id, actor, why)
        return see(f"/plans/{plan_id}", "The plan was rejected. Nothing was changed.")
    asked = approve(service.ledger, service.new_id(), plan_id, actor, why)
    return see(f"/requests/{asked.request_id}", "The plan was approved, and the runner was asked to apply it.")


@router.post("/plans/{plan_id}/apply")
def apply(plan_id: str, service: Asked, user: Operator) -> Response:
    """Ask the runner to do what the plan says, and no more."""
    saved, _ = _plan(service, plan_id)
    asked = ask(service, user, RequestKind.APPLY, job=saved.job, arguments={"plan": saved.path}, plan_id=plan_id)
    return see(f"/requests/{asked.request_id}", "The runner was asked to apply the plan.")


def _plan(service: Service, plan_id: str) -> tuple[SavedPlan, View]:
    saved = service.ledger.plans.get(plan_id)
    view = service.ledger.activity.view(plan_id) if saved and saved.job else None
    if saved is None or view is None:
        raise NotFoundError(f"there is no plan {plan_id}", hint="The page Plans lists those that this deployment made.")
    return saved, view
