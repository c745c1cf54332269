"""What was asked for and is not over, and every run, newest first."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.statuses import RUNNING, STOPPED
from lakewarden.model.run import RunStatus
from lakewarden.model.service import RequestStatus
from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.page import page
from lakewarden.service.html.paging import PAGE, Pages, place_of
from lakewarden.service.html.runs import open_requests, run_row, title_of

router = APIRouter(include_in_schema=False)

STATUSES = (RUNNING, STOPPED, *map(str, RunStatus))
OPEN = (RequestStatus.RUNNING, RequestStatus.WAITING, RequestStatus.QUEUED)
MOST_OPEN = 20


@router.get("/runs")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    said, now = request.query_params, service.clock.now()
    job = said.get("job", "") if said.get("job") in list(JOBS) else ""
    status = said.get("status", "") if said.get("status") in STATUSES else ""
    offset = place_of(said.get("offset"))
    runs, total = service.ledger.activity.runs(job=job, status=status, offset=offset, limit=PAGE)
    asked = {"job": job, "status": status}
    open_ones, more_open = open_requests(service, OPEN, MOST_OPEN)
    content = {
        "heading": "Runs",
        "open": open_ones,
        "more_open": more_open,
        "over": service.ledger.requests.list(status=[one for one in RequestStatus if one.is_over], limit=5),
        "title_of": title_of,
        "runs": [run_row(service, run, now) for run in runs],
        "asked": asked,
        "jobs": [str(one) for one in JOBS],
        "statuses": STATUSES,
        "pages": Pages.of("/runs", asked, offset, len(runs), total),
    }
    return page(request, service, user, "runs.html", content, here="/runs")
