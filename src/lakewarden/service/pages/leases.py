"""Who holds what: leases, writers that are at work, runners; and giving a dead holder's lease back."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.model.errors import LakewardenError, UsageError
from lakewarden.model.service import RequestStatus
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.html.page import Said, page, see
from lakewarden.service.html.runs import title_of

router = APIRouter(include_in_schema=False)

RECENT = timedelta(hours=24)
MOST = 200


@router.get("/leases")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    now, error = service.clock.now(), None
    try:
        leases = service.warden.leases()
    except LakewardenError as found:
        leases, error = [], found
    held = [one for one in leases if one["state"] != "released"]
    requests = service.ledger.requests.list(limit=MOST)
    workers: dict[str, dict[str, object]] = {}
    for one in requests:
        if one.claimed_by and one.beat_at and now - one.beat_at < RECENT:
            known = workers.setdefault(one.claimed_by, {"beat": one.beat_at, "work": None})
            if one.status is RequestStatus.RUNNING:
                known["work"] = one
    content = {
        "heading": "Leases and workers",
        "held": held[:MOST],
        "left_out": max(0, len(held) - MOST),
        "released": len(leases) - len(held),
        "error": error,
        "workers": workers,
        "title_of": title_of,
        "writers": service.ledger.heartbeats.live(now)[:MOST],
    }
    return page(request, service, user, "leases.html", content, here="/leases")


@router.post("/leases/release")
def release(service: Asked, user: Operator, key: Said, reason: Said = "") -> Response:
    """Give back a lease whose holder is gone. A holder that is alive finds out before its next batch, and stops."""
    if not reason.strip():
        raise UsageError("to release a lease needs a reason; nothing was released")
    service.warden.release_lease(key, reason.strip()[:300], user.actor(service))
    return see("/leases", "The lease was released.")
