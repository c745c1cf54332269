"""What the service deals in: requests by kind and status, roles, decisions on plans."""

from __future__ import annotations

from enum import StrEnum


class RequestKind(StrEnum):
    """What a runner is asked to do."""

    PLAN = "plan"
    RUN = "run"
    APPLY = "apply"
    NIGHT = "night"
    OBSERVE = "observe"
    RESTORE = "restore"
    RESTORE_COLD = "restore-cold"
    RESTORE_DRILL = "restore-drill"
    FORECAST = "forecast"
    AUDIT = "audit"


class RequestStatus(StrEnum):
    """`waiting`: the plan is made, and an approver has to agree before anything is changed."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    PARTIAL = "partial"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in (RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.WAITING)


class Role(StrEnum):
    """What a token lets its holder do; each role may do all that the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"

    def allows(self, wanted: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(wanted)


class Decision(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
