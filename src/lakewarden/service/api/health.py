"""`/livez`, `/readyz`: whether the process is there, and whether it can do its work."""

from __future__ import annotations

from fastapi import APIRouter

from lakewarden.service.access import Asked

router = APIRouter()


@router.get("/livez")
async def live() -> dict[str, str]:
    """The process answers."""
    # In the loop itself: where every thread waits for the database, whoever looks must not take the process for dead.
    return {"status": "ok"}


@router.get("/readyz")
def ready(service: Asked) -> dict[str, str]:
    """The state database answers too; otherwise 503 (LW-STATE-001)."""
    service.ledger.switches.frozen()
    return {"status": "ok"}
