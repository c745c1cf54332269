"""`/api/v1/savings`: what was saved, month by month, and what could be."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from lakewarden.reports.savings import saved_by_month
from lakewarden.service.access import Asked, Viewer
from lakewarden.service.api.shapes import ERRORS, Open

router = APIRouter(prefix="/api/v1", tags=["deployment"], responses=ERRORS)
Months = Annotated[int, Query(ge=1, le=120, description="How many months, with this one.")]


class Month(Open):
    """What runs freed in a month, and what every month since costs less for that."""

    month: str
    bytes: int
    saved_a_month: float


class Savings(Open):
    """Estimates by the prices of `[cost]`. `could_save_a_month`: what the newest plans would free, not yet applied."""

    currency: str
    per_gib_month: float
    reclaimable_bytes: int
    could_save_a_month: float
    months: list[Month]


@router.get("/savings")
def savings(user: Viewer, service: Asked, months: Months = 12) -> Savings:
    """Bytes that runs freed, by month, and that plans would free, each with its price."""
    cost, reclaimable = service.settings.cost.prices, service.ledger.fleet.summary().reclaimable_bytes
    found = saved_by_month(service.ledger.activity, cost, service.clock.now(), months)
    return Savings(
        currency=cost.currency,
        per_gib_month=cost.per_gib_month,
        reclaimable_bytes=reclaimable,
        could_save_a_month=cost.of_month(reclaimable),
        months=[Month(**asdict(one)) for one in found],
    )
