"""What became of a plan, and whether it can be applied now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from lakewarden.model.plan import Plan


class PlanState(StrEnum):
    READY = "ready"
    OPEN = "open"  # a run began with it and has not ended
    USED = "used"
    EXPIRED = "expired"
    FOREIGN = "foreign"  # another deployment made it
    UNSEEN = "unseen"  # it has read tables of a catalog that is not configured now
    FROZEN = "frozen"
    REFUSED = "refused"  # every table of it is refused or braked
    EMPTY = "empty"  # nothing to change
    UNKNOWN = "unknown"  # the state database could not be asked


@dataclass(frozen=True, slots=True)
class Standing:
    """A plan's state; with a run that used or began it, that run. `why` says more where the state alone does not.

    `lifted` are the brakes that were lifted for the run that began it: whoever goes on with it goes on with them.
    """

    state: PlanState
    run_id: str | None = None
    at: datetime | None = None
    status: str | None = None
    summary: str | None = None
    why: str = ""
    lifted: tuple[str, ...] = ()

    @property
    def can_be_applied(self) -> bool:
        return self.state is PlanState.READY or (self.state is PlanState.OPEN and self.status != "running")

    def as_json(self) -> dict[str, Any]:
        return {
            "state": str(self.state),
            "can_be_applied": self.can_be_applied,
            "run_id": self.run_id,
            "at": self.at.isoformat() if self.at else None,
            "status": self.status,
            "summary": self.summary,
            "why": self.why or None,
        }


def unused(plan: Plan) -> Standing:
    """The standing of a plan that nothing has happened to, by what it says itself."""
    if plan.tables and all(table.refusal for table in plan.tables):
        return Standing(PlanState.REFUSED)
    return Standing(PlanState.READY if any(plan.totals()["changes"].values()) else PlanState.EMPTY)
