"""What became of a plan, and whether `apply` would accept it now. Reads the ledger only: no catalog, no Spark.

The order is that of a reader's questions, not of apply's checks: that a plan is used matters more than that it is late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.runs import Run
from lakewarden.model.plan import Plan
from lakewarden.model.run import RunResult
from lakewarden.model.standing import PlanState, Standing, unused
from lakewarden.steps.job import JobSpec
from lakewarden.steps.summary import run_summary


def standing_of(
    plan: Plan,
    ledger: Ledger,
    spec: JobSpec,
    catalogs: Collection[str],
    now: datetime,
    as_shown: Callable[[Run], Run],
) -> Standing:
    """The plan as it stands now. `as_shown` tells whether anybody is at work on a run that has not ended."""
    saved = ledger.plans.get(plan.plan_id)
    if saved is None or saved.created_at is None:
        return Standing(PlanState.FOREIGN)
    if saved.used_by is not None:
        run = ledger.runs.get(saved.used_by)
        if run is None or run.finished_at is None:
            status = as_shown(run).status if run else "stopped"
            late = f"the plan expired {plan.expires_at:%Y-%m-%d %H:%M} UTC" if now >= plan.expires_at else ""
            lifted = _lifted_for(ledger, saved.used_by)
            return Standing(PlanState.OPEN, saved.used_by, saved.used_at, status, why=late, lifted=lifted)
        summary = run_summary(spec, RunResult.of(run.result)) if run.result else None
        return Standing(PlanState.USED, run.run_id, run.finished_at, run.status, summary)
    if now >= plan.expires_at:
        return Standing(PlanState.EXPIRED, at=plan.expires_at)
    known = tuple(f"{name}." for name in catalogs)
    unseen = next((name for name in plan.pointers if not name.startswith(known)), None)
    if unseen is not None:
        return Standing(PlanState.UNSEEN, why=f"no configured catalog holds {unseen}, which the plan has read")
    if (frozen := ledger.switches.frozen()) is not None:
        return Standing(PlanState.FROZEN, at=frozen.when, why=f"{frozen.who}{frozen.because}")
    return unused(plan)


def _lifted_for(ledger: Ledger, run_id: str) -> tuple[str, ...]:
    """The brakes that were lifted when a run was begun."""
    from lakewarden.steps.apply.claim import STARTED, Terms

    started = next((step.detail for step in ledger.runs.steps(run_id) if step.name == STARTED), None)
    return Terms.of_step(started).lifted if started is not None else ()
