"""The plans, newest first, and asking for a new one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.jobs.registry import JOBS, job_named
from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.html.asks import ask
from lakewarden.service.html.page import Said, page, see
from lakewarden.service.html.paging import PAGE, Pages, place_of
from lakewarden.service.html.plans import plan_row

router = APIRouter(include_in_schema=False)


@router.get("/plans")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    said = request.query_params
    job = said.get("job", "") if said.get("job") in list(JOBS) else ""
    offset = place_of(said.get("offset"))
    plans, total = service.ledger.activity.plans(job=job or None, offset=offset, limit=PAGE)
    decisions = service.ledger.approvals.of([one.saved.plan_id for one in plans])
    content: dict[str, Any] = {
        "heading": "Plans",
        "plans": [plan_row(service, one, decisions.get(one.saved.plan_id)) for one in plans],
        "jobs": [str(one) for one in JOBS],
        "does": {str(name): spec.does for name, spec in JOBS.items()},
        "job": job,
        "pages": Pages.of("/plans", {"job": job}, offset, len(plans), total),
    }
    return page(request, service, user, "plans.html", content, here="/plans")


@router.post("/plans")
def plan(service: Asked, user: Operator, job: Said, select: Said = "") -> Response:
    """Ask the runner for a plan of one job, of the tables that match or of all."""
    spec = job_named(job)
    patterns = [one for one in (part.strip() for part in select.splitlines()) if one]
    asked = ask(service, user, RequestKind.PLAN, job=str(spec.name), arguments={"select": patterns})
    return see(
        f"/requests/{asked.request_id}", f"The runner was asked for a plan of {spec.name}. A plan changes nothing."
    )
