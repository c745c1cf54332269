"""`/api/v1/runs`: what was done, what is being done, how it is stopped and undone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.runs import Run as LedgerRun
from lakewarden.model.errors import NotFoundError, UsageError
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.reports.runs import run_facts
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.api import shapes
from lakewarden.service.api.asks import ToRunner, asked
from lakewarden.service.api.live import LastEventId, News, stream
from lakewarden.service.api.requests import EVENTS
from lakewarden.service.api.shapes import ERRORS, Id, Limit, Offset, Open, Word, told
from lakewarden.service.service import Service

router = APIRouter(prefix="/api/v1", tags=["runs"], responses=ERRORS)


class Run(Open):
    """A run. Its `result` is in the shape of `lakewarden apply --output json`."""

    run_id: str
    job: str
    plan_id: str | None
    status: str
    operator: str
    started_at: datetime
    finished_at: datetime | None
    summary: str | None
    result: dict[str, Any] | None


class Runs(Open):
    runs: list[Run]
    total: int
    offset: int
    limit: int


@router.get("/runs")
def runs(
    user: Viewer,
    service: Asked,
    job: Word | None = None,
    status: Word | None = None,
    offset: Offset = 0,
    limit: Limit = 50,
) -> Runs:
    """The runs of every worker of this deployment, newest first."""
    found, total = service.ledger.activity.runs(job=job, status=status, offset=offset, limit=limit)
    # Whether anybody is at work on an open run is only known by its lease.
    rows = [run_facts(one, JOBS) if one.finished_at else service.warden.run_detail(one.run_id) for one in found]
    return Runs(runs=[Run(**told(row)) for row in rows], total=total, offset=offset, limit=limit)


@router.get("/runs/{run_id}")
def run(user: Viewer, service: Asked, run_id: Id) -> Run:
    """One run with its steps, what became of its files, and how far it is."""
    return Run(**told(service.warden.run_detail(run_id)))


@router.post("/runs/{run_id}/cancel", status_code=202)
def cancel(user: Operator, service: Asked, run_id: Id) -> shapes.Asked:
    """Stop a run that a runner of this service works on, between two batches. What was done stands."""
    found = _run(service, run_id)
    open_ones = (
        service.ledger.requests.list(status=[RequestStatus.RUNNING], plan_id=found.plan_id) if found.plan_id else []
    )
    if not open_ones:
        raise UsageError(
            f"no runner of this service works on run {run_id}; nothing was stopped",
            hint="`POST /api/v1/freeze` stops every worker, commands too, before its next batch.",
        )
    return asked(service.ledger.requests.ask_cancel(open_ones[0].request_id, user.name))


@router.post("/runs/{run_id}/restore", status_code=202)
def restore(user: Operator, service: Asked, runner: ToRunner, run_id: Id) -> shapes.Asked:
    """Ask a runner to bring back the files that a run moved to the trash."""
    found = _run(service, run_id)
    return runner.ask(user, RequestKind.RESTORE, job=found.job, arguments={"run_id": run_id})


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses={200: EVENTS})
def events(
    user: Viewer, service: Asked, asking: Request, run_id: Id, last_event_id: LastEventId = None
) -> StreamingResponse:
    """The steps of a run and how far it is, as server-sent events; goes on after `Last-Event-ID`, and ends with `over`."""
    _run(service, run_id)

    def look(seen: int) -> News:
        found = service.warden.run_detail(run_id)
        steps = [(number, step["name"], step) for number, step in enumerate(found["steps"], 1) if number > seen]
        return News(steps, found["status"] != "running" and not steps)

    return stream(asking, last_event_id, look)


def _run(service: Service, run_id: str) -> LedgerRun:
    found = service.ledger.runs.get(run_id)
    if found is None:
        raise NotFoundError(f"there is no run {run_id}")
    return found
