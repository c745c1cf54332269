"""Plans that wait for somebody to agree: who may, what follows, and what became of plans that nobody decided on."""

from __future__ import annotations

from datetime import datetime

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.plans import SavedPlan
from lakewarden.ledger.requests import Ended, Request, error_values
from lakewarden.model.actor import Actor
from lakewarden.model.errors import ApprovalError, NotFoundError, PlanExpiredError
from lakewarden.model.plan import Plan
from lakewarden.model.service import Decision, RequestKind, RequestStatus
from lakewarden.steps.plan.document import APPROVAL

# How the keys of requests begin that follow from a decision: no name of a token does.
DECIDED = "@approval/"
AS_RUN = "as_run"


def needs_approval(plan: Plan) -> bool:
    """Whether somebody has to agree before a plan is applied: a table that it may change has `approval = true`."""
    return any(
        table.policy.get(APPROVAL) and table.refusal is None and any(table.changes.values()) for table in plan.tables
    )


def approve(ledger: Ledger, request_id: str, plan_id: str, actor: Actor, reason: str = "") -> Request:
    """Agree to a plan: it is recorded, and a request to apply the plan is made, under `request_id`.

    Asked again by the same person, the same request comes back. Raises NotFoundError for an unknown plan, ApprovalError
    for one that was made by the same person, was decided on otherwise, has expired or was used.
    """
    saved, waiting = _undecided(ledger, plan_id, actor)
    ledger.approvals.decide(
        plan_id, Decision.APPROVED, actor, planned_by=_planner(ledger, plan_id, waiting), reason=reason
    )
    # What a run of the schedule or of an operator planned is applied as that run would have: tables with `dry_run` are
    # left as they are. A plan that somebody asked for by itself is applied whole.
    as_run = any(one.kind is RequestKind.RUN for one in waiting)
    arguments = {"plan": saved.path, **({AS_RUN: True} if as_run else {})}
    made = ledger.requests.create(
        request_id,
        RequestKind.APPLY,
        actor,
        job=saved.job,
        arguments=arguments,
        idempotency_key=f"{DECIDED}{plan_id}",
    )
    for one in waiting:
        ledger.requests.event(
            one.request_id, "approved", {"by": actor.operator, "reason": reason, "request": made.request_id}
        )
        ledger.requests.close_waiting(one.request_id, Ended(RequestStatus.DONE))
    return made


def reject(ledger: Ledger, plan_id: str, actor: Actor, reason: str = "") -> None:
    """Decide that a plan is not applied: recorded, and whatever waited for it is closed. Raises as `approve` does."""
    _, waiting = _undecided(ledger, plan_id, actor)
    ledger.approvals.decide(
        plan_id, Decision.REJECTED, actor, planned_by=_planner(ledger, plan_id, waiting), reason=reason
    )
    error = ApprovalError(
        f"{actor.operator} rejected plan {plan_id}{': ' + reason if reason else ''}; nothing was changed"
    )
    for one in waiting:
        ledger.requests.event(one.request_id, "rejected", {"by": actor.operator, "reason": reason})
        ledger.requests.close_waiting(one.request_id, Ended(RequestStatus.REFUSED, error=error_values(error)))


def close_expired(ledger: Ledger, now: datetime) -> int:
    """End what waits for plans that have expired meanwhile, and say so. How many there were."""
    count = 0
    for one in ledger.requests.list(status=[RequestStatus.WAITING], limit=1000):
        saved = ledger.plans.get(one.plan_id) if one.plan_id else None
        if saved is None or saved.expires_at is None or saved.expires_at > now:
            continue
        error = _expired(saved)
        ledger.requests.event(one.request_id, "expired", {"plan": saved.plan_id})
        count += ledger.requests.close_waiting(one.request_id, Ended(RequestStatus.REFUSED, error=error_values(error)))
    return count


def _undecided(ledger: Ledger, plan_id: str, actor: Actor) -> tuple[SavedPlan, list[Request]]:
    saved = ledger.plans.get(plan_id)
    if saved is None or saved.path is None or saved.expires_at is None:
        raise NotFoundError(f"there is no plan {plan_id}")
    before = ledger.approvals.get(plan_id)
    if before is not None and before.actor.operator == actor.operator:
        return saved, []  # asked again: `decide` says whether it is the same decision
    if saved.used_by is not None:
        raise ApprovalError(f"plan {plan_id} was used by run {saved.used_by}; nothing was recorded")
    if (now := ledger.now()) >= saved.expires_at:
        close_expired(ledger, now)
        raise ApprovalError(f"{_expired(saved).message}; nothing was recorded")
    return saved, ledger.requests.list(status=[RequestStatus.WAITING], plan_id=plan_id)


def _planner(ledger: Ledger, plan_id: str, waiting: list[Request]) -> str:
    if waiting:
        return waiting[0].actor.operator
    before, header = ledger.approvals.get(plan_id), None
    if before is None:
        header = ledger.plans.header(plan_id)
    return before.planned_by if before else header.actor.operator if header else ""


def _expired(saved: SavedPlan) -> PlanExpiredError:
    return PlanExpiredError(
        f"plan {saved.plan_id} expired at {saved.expires_at:%Y-%m-%d %H:%M} UTC before anybody decided on it"
    )
