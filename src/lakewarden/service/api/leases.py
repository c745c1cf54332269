"""`/api/v1/leases`: who may work where now, and taking a lease away that its holder left behind."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.api.shapes import ERRORS, Open, Reason, Word, told

router = APIRouter(prefix="/api/v1", tags=["leases"], responses=ERRORS)


class Release(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: Word
    reason: Reason = Field(description="Why; kept in the lease's record.")


class Leases(Open):
    leases: list[dict[str, Any]]


class Released(Open):
    released: str
    reason: str


@router.get("/leases")
def leases(user: Viewer, service: Asked, held: bool = True) -> Leases:
    """The leases that are held; `held=false`: every one that there ever was."""
    found = service.warden.leases()
    return Leases(leases=told([lease for lease in found if not held or lease["state"] != "released"]))


@router.post("/leases/release")
def release(user: Operator, service: Asked, body: Release) -> Released:
    """Take a lease away. Its holder, if it lives, stops before its next batch."""
    service.warden.release_lease(body.key, body.reason, user.actor(service))
    return Released(released=body.key, reason=body.reason)
