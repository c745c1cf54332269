"""One run: how far it is, its steps and batches, what failed, and bringing its files back."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.ledger.runs import Run
from lakewarden.ledger.statuses import RUNNING
from lakewarden.model.errors import NotFoundError
from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.html.asks import ask
from lakewarden.service.html.page import page, part, see
from lakewarden.service.html.paging import place_of
from lakewarden.service.html.run import run_content
from lakewarden.service.service import Service

router = APIRouter(include_in_schema=False)


@router.get("/runs/{run_id}")
def show(run_id: str, request: Request, service: Asked, user: Viewer) -> Response:
    run = _run(service, run_id)
    content = run_content(service, run, place_of(request.query_params.get("offset")))
    return page(request, service, user, "run.html", {"heading": f"Run of {run.job}", **content}, here="/runs")


@router.get("/runs/{run_id}/live")
def live(run_id: str, request: Request, service: Asked, user: Viewer) -> Response:
    """The part of the page that changes while the run is at work. Once it is over, the browser loads the whole page."""
    content = run_content(service, _run(service, run_id), place_of(request.query_params.get("offset")))
    answer = part(request, service, user, "parts/run_live.html", content)
    if content["status"] != RUNNING:
        answer.headers["HX-Refresh"] = "true"
    return answer


@router.post("/runs/{run_id}/restore")
def restore(run_id: str, service: Asked, user: Operator) -> Response:
    """Ask the runner to bring back what the run put into quarantine."""
    _run(service, run_id)
    asked = ask(service, user, RequestKind.RESTORE, arguments={"run_id": run_id})
    return see(f"/requests/{asked.request_id}", "The runner was asked to bring the files back.")


def _run(service: Service, run_id: str) -> Run:
    if (run := service.ledger.runs.get(run_id)) is None:
        raise NotFoundError(f"there is no run {run_id}", hint="The page Runs lists all that were recorded.")
    return run
