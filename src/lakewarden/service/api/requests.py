"""`/api/v1/requests`: what runners were asked to do, live, and how it is stopped."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from lakewarden.model.service import RequestStatus
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.api import shapes
from lakewarden.service.api.asks import asked
from lakewarden.service.api.live import LastEventId, News, stream
from lakewarden.service.api.shapes import ERRORS, Id, Limit, Open, Word

router = APIRouter(prefix="/api/v1", tags=["requests"], responses=ERRORS)
EVENTS = {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events until it is over"}


class Requests(Open):
    """Newest first. `next_before` is where the next page begins; None on the last one."""

    requests: list[shapes.Asked]
    next_before: str | None


@router.get("/requests")
def requests(
    user: Viewer,
    service: Asked,
    status: RequestStatus | None = None,
    job: Word | None = None,
    before: Word | None = None,
    limit: Limit = 50,
) -> Requests:
    """What was asked for, newest first; `before` is a request that was seen already."""
    ledger = service.ledger.requests
    seen = ledger.need(before) if before else None
    found = ledger.list(status=[status] if status else (), job=job, limit=limit, before=seen)
    more = found[-1].request_id if len(found) == limit else None
    return Requests(requests=[asked(one) for one in found], next_before=more)


@router.get("/requests/{request_id}")
def request(user: Viewer, service: Asked, request_id: Id) -> shapes.Asked:
    """One request, and what became of it until now; `run_id` is there as soon as its run has begun."""
    found = service.ledger.requests.need(request_id)
    if found.run_id is None and found.plan_id is not None and found.status is RequestStatus.RUNNING:
        run = service.ledger.runs.open_for_plan(found.plan_id)
        found = replace(found, run_id=run.run_id if run else None)
    return asked(found)


@router.post("/requests/{request_id}/cancel", status_code=202)
def cancel(user: Operator, service: Asked, request_id: Id) -> shapes.Asked:
    """Stop it: at once where nobody works on it yet, else between two batches. One that is over stays as it is."""
    return asked(service.ledger.requests.ask_cancel(request_id, user.name))


@router.get("/requests/{request_id}/events", response_class=StreamingResponse, responses={200: EVENTS})
def events(
    user: Viewer, service: Asked, asking: Request, request_id: Id, last_event_id: LastEventId = None
) -> StreamingResponse:
    """What happens to it, as server-sent events; goes on after `Last-Event-ID`, and ends with `over`."""
    ledger = service.ledger.requests
    ledger.need(request_id)

    def look(seen: int) -> News:
        # In this order: what is noted before the end is told before `over`.
        over = ledger.need(request_id).status.is_over
        found = ledger.events_after(request_id, seen)
        return News(
            [(one.event_id, one.name, {"at": one.at, **(one.detail or {})}) for one in found], over and not found
        )

    return stream(asking, last_event_id, look)
