"""Plans that wait for somebody to agree: who may, what follows, and what became of plans that nobody decided on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lakewarden.ledger.approvals import Approval
from lakewarden.ledger.database import Ledger
from lakewarden.ledger.plans import SavedPlan
from lakewarden.ledger.requests import Ended, Request, error_values
from lakewarden.model.actor import Actor
from lakewarden.model.errors import ApprovalError, NotFoundError, PlanError, PlanExpiredError, PlanUsedError
from lakewarden.model.plan import Plan
from lakewarden.model.service import Decision, RequestKind, RequestStatus
from lakewarden.steps.plan.document import APPROVAL

# How the keys of requests begin that follow from a decision: no name of a token does.
DECIDED = "@approval/"
AS_RUN = "as_run"
# Of a request that the schedule or a night made: it does what the policies say by themselves.
UNATTENDED = "enabled_only"
MOST_WAITING = 1000


def needs_approval(plan: Plan) -> bool:
    """Whether somebody has to agree before a plan is applied: a table that it may change has `approval = true`."""
    return bool(_wanting(plan, ()))


def may_apply(plan: Plan, decided: Approval | None, lifted: Sequence[str] = ()) -> bool:
    """Whether a plan may be applied now; False where somebody has to agree first.

    Raises ApprovalError where somebody has rejected it, and where `lifted` brakes would let it change tables that want
    an approval: whoever agrees to a plan agrees to what it would change as it stands.
    """
    if decided is not None and decided.decision is Decision.REJECTED:
        raise _rejected(plan.plan_id, decided.actor, decided.reason)
    if held := _wanting(plan, lifted) - _wanting(plan, ()):
        raise ApprovalError(
            f"table {min(held)} wants an approval and is held by a brake, which nobody here can lift; nothing was done",
            hint="`lakewarden apply PLAN_DIR --override-brake NAME` on the command line is its user's own approval.",
        )
    return decided is not None or not needs_approval(plan)


def _wanting(plan: Plan, lifted: Sequence[str]) -> frozenset[str]:
    """The tables with `approval = true` that a plan may change with these brakes lifted."""
    allowed = plan.allowed(lifted)
    return frozenset(
        table.identifier
        for table in plan.tables
        if table.policy.get(APPROVAL)
        and table.identifier in allowed
        and (any(table.changes.values()) or table.identifier in plan.braked)
    )


def approve(ledger: Ledger, request_id: str, plan_id: str, actor: Actor, reason: str = "") -> Request:
    """Agree to a plan: it is recorded, and a request to apply the plan is made, under `request_id`.

    Asked again by the same person, the same request comes back. Raises NotFoundError for an unknown plan, ApprovalError
    for one that was made by the same person, was decided on otherwise, has expired or was used.
    """
    saved, waiting = _undecided(ledger, plan_id, actor)
    ledger.approvals.decide(plan_id, Decision.APPROVED, actor, planned_by=_planner(ledger, plan_id), reason=reason)
    # What a run of the schedule or of an operator planned is applied as that run would have: tables with `dry_run` are
    # left as they are, also where the run was cancelled meanwhile. A plan that somebody asked for by itself is applied whole.
    runs = ledger.requests.list(kind=RequestKind.RUN, plan_id=plan_id, limit=1)
    arguments = {"plan": saved.path, **({AS_RUN: True} if runs else {})}
    if runs and runs[0].arguments.get(UNATTENDED):
        arguments[UNATTENDED] = True  # what comes of it is what the jobs after it on that day look at
    made = ledger.requests.create(
        request_id,
        RequestKind.APPLY,
        actor,
        job=saved.job,
        arguments=arguments,
        plan_id=plan_id,
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
    ledger.approvals.decide(plan_id, Decision.REJECTED, actor, planned_by=_planner(ledger, plan_id), reason=reason)
    error = _rejected(plan_id, actor, reason)
    for one in waiting:
        ledger.requests.event(one.request_id, "rejected", {"by": actor.operator, "reason": reason})
        ledger.requests.close_waiting(one.request_id, Ended(RequestStatus.REFUSED, error=error_values(error)))


def close_expired(ledger: Ledger, now: datetime) -> int:
    """End what waits for plans that have expired, or that somebody used meanwhile, and say so. How many there were."""
    count = 0
    for one in ledger.requests.list(status=[RequestStatus.WAITING], limit=MOST_WAITING):
        saved = ledger.plans.get(one.plan_id) if one.plan_id else None
        if saved is None or (name := _waits_in_vain(saved, now)) is None:
            continue
        ledger.requests.event(one.request_id, name, {"plan": saved.plan_id, "run": saved.used_by})
        count += ledger.requests.close_waiting(one.request_id, _in_vain(saved, ledger.approvals.get(saved.plan_id)))
    return count


def _waits_in_vain(saved: SavedPlan, now: datetime) -> str | None:
    """What became of a plan to which nobody can agree any more; None while somebody can."""
    if saved.used_by is not None:
        return "used"
    return "expired" if saved.expires_at is not None and saved.expires_at <= now else None


def _in_vain(saved: SavedPlan, decided: Approval | None) -> Ended:
    agreed = decided is not None and decided.decision is Decision.APPROVED
    if saved.used_by is not None and agreed:
        return Ended(RequestStatus.DONE)  # whoever agreed died before they could say so here
    error: PlanError = _expired(saved)
    if saved.used_by is not None:
        error = PlanUsedError(f"plan {saved.plan_id} was used by run {saved.used_by}, and nobody agreed to it here")
    elif decided is not None:
        error = PlanExpiredError(
            f"plan {saved.plan_id} was {decided.decision} by {decided.actor.operator}, and expired before it was applied"
        )
    return Ended(RequestStatus.REFUSED, error=error_values(error))


def _undecided(ledger: Ledger, plan_id: str, actor: Actor) -> tuple[SavedPlan, list[Request]]:
    saved = ledger.plans.get(plan_id)
    if saved is None or saved.path is None or saved.expires_at is None:
        raise NotFoundError(f"there is no plan {plan_id}")
    waiting = ledger.requests.list(status=[RequestStatus.WAITING], plan_id=plan_id, limit=MOST_WAITING)
    before = ledger.approvals.get(plan_id)
    if before is not None and before.actor.operator == actor.operator:
        return saved, waiting  # asked again: `decide` says whether it is the same decision
    if saved.used_by is not None:
        raise ApprovalError(f"plan {plan_id} was used by run {saved.used_by}; nothing was recorded")
    if (now := ledger.now()) >= saved.expires_at:
        close_expired(ledger, now)
        raise ApprovalError(f"{_expired(saved).message}; nothing was recorded")
    return saved, waiting


def _planner(ledger: Ledger, plan_id: str) -> str:
    """Who made the plan, as its header says: others may have asked for it to be applied since."""
    if (header := ledger.plans.header(plan_id)) is None:
        raise NotFoundError(f"who made plan {plan_id} is not known, so nobody can decide on it; nothing was recorded")
    return header.actor.operator


def _rejected(plan_id: str, by: Actor, reason: str) -> ApprovalError:
    return ApprovalError(f"{by.operator} rejected plan {plan_id}{': ' + reason if reason else ''}; nothing was changed")


def _expired(saved: SavedPlan) -> PlanExpiredError:
    return PlanExpiredError(
        f"plan {saved.plan_id} expired at {saved.expires_at:%Y-%m-%d %H:%M} UTC before anybody decided on it"
    )
