"""One request to the runner: where it stands, what happened so far, what came of it, and stopping it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.html.page import page, part, see
from lakewarden.service.html.runs import title_of
from lakewarden.service.html.steps import MOST_STEPS, steps_of
from lakewarden.service.service import Service

router = APIRouter(include_in_schema=False)


@router.get("/requests/{request_id}")
def show(request_id: str, request: Request, service: Asked, user: Viewer) -> Response:
    return page(request, service, user, "request.html", _content(service, request_id), here="/runs")


@router.get("/requests/{request_id}/live")
def live(request_id: str, request: Request, service: Asked, user: Viewer) -> Response:
    """The part of the page that changes while the request is worked on."""
    return part(request, service, user, "parts/request_live.html", _content(service, request_id))


@router.post("/requests/{request_id}/cancel")
def cancel(request_id: str, service: Asked, user: Operator) -> Response:
    found = service.ledger.requests.ask_cancel(request_id, user.name)
    told = "It is cancelled." if found.status.is_over else "It ends after the batch it is in; what is done stands."
    return see(f"/requests/{request_id}", told)


def _content(service: Service, request_id: str) -> dict[str, Any]:
    found = service.ledger.requests.need(request_id)
    run = service.ledger.runs.get(found.run_id) if found.run_id else None
    if run is None and found.plan_id and found.kind is RequestKind.APPLY:
        run = service.ledger.runs.open_for_plan(found.plan_id)
    steps = steps_of(service.ledger.requests.newest_events(request_id))
    return {
        "heading": title_of(found).capitalize(),
        "asked": found,
        "steps": steps[-MOST_STEPS:],
        "steps_left_out": max(0, len(steps) - MOST_STEPS),
        "run": run,
        "progress": service.ledger.progress.get(run.run_id) if run else None,
        "table": (found.arguments.get("select") or [None])[0] if found.kind is RequestKind.FORECAST else None,
        "uri": found.arguments.get("uri"),
    }
