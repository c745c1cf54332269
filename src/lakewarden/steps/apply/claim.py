"""Before a run: may this plan be applied now, which of its tables, and by whom. A plan has one run, and a run one worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lakewarden.ledger.lease import Lease
from lakewarden.ledger.marks import write_mark
from lakewarden.ledger.run_status import naming_its_run, run_lease
from lakewarden.ledger.statuses import RUNNING
from lakewarden.model.actor import Actor
from lakewarden.model.errors import (
    FrozenError,
    LeaseHeldError,
    NothingAppliedError,
    PlanError,
    PlanExpiredError,
    PlanOutdatedError,
    PlanUsedError,
    UsageError,
)
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import Plan
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.verdict import Brake
from lakewarden.steps.apply.guard import told_of_wait
from lakewarden.steps.apply.lineage import lineage
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.state_age import check_not_restored
from lakewarden.steps.observe.state_disk import check_state_disk

STARTED = "started"


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a run is begun. Whoever goes on with it keeps them: other tables would shift its batches.

    `lifted` are brakes; `left_out` are tables of the plan that the run leaves as they are. `unattended`: `run` began it,
    as the policies say, and not a person who chose its plan; `night` is the night that it belongs to.
    """

    lifted: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    unattended: bool = False
    night: str | None = None

    def as_step(self) -> dict[str, Any]:
        """As the run's record has them."""
        found: dict[str, Any] = {"overrides": sorted(self.lifted)}
        if self.unattended:
            found |= {"unattended": True, "left_out": sorted(self.left_out), "night": self.night}
        return found

    @staticmethod
    def of_step(detail: Mapping[str, Any]) -> Terms:
        return Terms(
            tuple(detail["overrides"]),
            tuple(detail.get("left_out", ())),
            bool(detail.get("unattended")),
            detail.get("night"),
        )


@dataclass(frozen=True)
class Claim:
    """A plan that this worker may apply: its run, the run's lease, and the brakes that were lifted for it.

    `resumed`: a process before this one was about to change something, or has.
    """

    deployment: Deployment
    result: PlanResult
    run_id: str
    lease: Lease
    lifted: tuple[str, ...]
    progress: Progress
    resumed: bool = False

    def announce(self) -> None:
        """Say in the state location that this run is about to change something.

        Called when the ledger holds whatever must be known from the first change on, such as the files that the run
        releases. A state database that goes back to before this moment is then told by it (steps/observe/state_age.py).
        """
        number = self.deployment.ledger.runs.add_mark(self.run_id)
        about = {"job": self.plan.job, "plan_id": self.plan.plan_id, "plan": self.result.path}
        write_mark(self.deployment.stores, self.deployment.state, self.run_id, number, about)

    @property
    def plan(self) -> Plan:
        return self.result.plan


def check_plan(deployment: Deployment, plan: Plan, overrides: Sequence[str]) -> None:
    """Raise for a plan that may not be applied now. Nothing is claimed or recorded before."""
    unknown = [name for name in overrides if name not in list(Brake)]
    if unknown:
        raise UsageError(f"there is no brake {unknown[0]!r}; brakes: {', '.join(Brake)}")
    if (frozen := deployment.ledger.switches.frozen()) is not None:
        when = f"{frozen.when:%Y-%m-%d %H:%M} UTC"
        raise FrozenError(f"{frozen.who} froze this deployment on {when}{frozen.because}; nothing was done")
    check_state_disk(deployment, "nothing was done")
    check_not_restored(deployment, "nothing was done")
    if deployment.ledger.plans.header(plan.plan_id) is None:
        # Another deployment's leases, heartbeats and record of used plans are not visible here.
        raise PlanError(f"plan {plan.plan_id} was not made by this deployment; nothing was done")
    catalogs = tuple(f"{name}." for name in deployment.formats)
    unseen = [name for name in plan.pointers if not name.startswith(catalogs)]
    if unseen:
        # The tables of that catalog may need the files by now, and nobody could tell.
        raise PlanOutdatedError(f"no configured catalog holds {unseen[0]}, which the plan has read; nothing was done")
    if deployment.clock.now() >= plan.expires_at and deployment.ledger.runs.open_for_plan(plan.plan_id) is None:
        raise PlanExpiredError(f"plan {plan.plan_id} expired at {plan.expires_at:%Y-%m-%d %H:%M} UTC; nothing was done")
    # A run that was begun goes on with the brakes that were lifted for it, also where nobody names them again.
    lifted = terms_at_start(deployment, plan, Terms(tuple(overrides))).lifted
    # First: nobody is sent to lift the brakes of a plan that is over.
    deployment.ledger.plans.check_unused(plan.plan_id)
    _check_something_may_change(plan, lifted)


def _check_something_may_change(plan: Plan, lifted: Sequence[str]) -> None:
    """Raise for a plan that changes nothing but what brakes hold, or whose tables are all refused.

    Such a run would end with nothing done, and the plan would be used up before anybody has decided about its brakes.
    """
    allowed = plan.allowed(lifted)
    if any(any(table.changes.values()) for table in plan.tables if table.identifier in allowed):
        return
    held = sorted(brake for brake, names in plan.brakes.items() if brake not in lifted and names)
    if held:
        raise NothingAppliedError(
            f"plan {plan.plan_id} has no table that may be changed; held by brakes: {', '.join(held)}; nothing was done",
            hint="Find out why: `lakewarden show PLAN_DIR`. If it is right: apply again with --override-brake NAME.",
        )
    if not allowed and any(table.refusal for table in plan.tables):
        raise NothingAppliedError(f"plan {plan.plan_id} has no table that may be changed; nothing was done")


def terms_of(deployment: Deployment, run_id: str) -> Terms | None:
    """The terms on which a run was begun; None if it was not."""
    found = (step.detail for step in deployment.ledger.runs.steps(run_id) if step.name == STARTED)
    return next(map(Terms.of_step, found), None)


def terms_at_start(deployment: Deployment, plan: Plan, wanted: Terms) -> Terms:
    """The terms on which the plan's run was begun, or is to be."""
    run = deployment.ledger.runs.open_for_plan(plan.plan_id)
    first = terms_of(deployment, run.run_id) if run else None
    if run is None or first is None:
        return wanted
    if not set(wanted.lifted) <= set(first.lifted):
        raise UsageError(
            f"run {run.run_id} was begun with {_lifted(first)}, and goes on so; nothing was done",
            hint="Apply again without --override-brake, or with what the run was begun with.",
        )
    return first


def _lifted(terms: Terms) -> str:
    brakes = "brake" if len(terms.lifted) == 1 else "brakes"
    return f"{brakes} {', '.join(terms.lifted)} lifted" if terms.lifted else "no brake lifted"


@contextmanager
def claimed(
    deployment: Deployment, result: PlanResult, actor: Actor, terms: Terms, progress: Progress
) -> Iterator[Claim]:
    """The plan's one run, begun or gone on with, under its lease. Raises PlanUsedError if a run used the plan up."""
    plan, ledger = result.plan, deployment.ledger
    run_id = ledger.plans.claim(plan.plan_id, deployment.new_id())
    # Of two that apply one plan at once, the second must not take the first for a crashed one.
    key, watched = run_lease(run_id), told_of_wait(progress)
    try:
        held = deployment.leases.acquire(key, MARGINS.lease_seconds, watched=watched)
    except LeaseHeldError as error:
        raise naming_its_run(error, deployment.leases) from error
    with held as lease:
        if (run := ledger.runs.get(run_id)) is None:
            ledger.runs.start(run_id, plan.job, plan.plan_id, actor)
        elif run.finished_at is not None:
            raise PlanUsedError(f"plan {plan.plan_id} was finished meanwhile by run {run_id}; nothing was done")
        ledger.runs.mark(run_id, RUNNING)
        # The facts that a commit says of itself: a run that makes no snapshot has them here.
        said = {"lineage": lineage(deployment, plan, run_id)}
        ledger.runs.step(run_id, STARTED, {"by": actor.operator, **said, **terms.as_step()})
        yield Claim(
            deployment, result, run_id, lease, terms.lifted, progress, resumed=run is not None and run.marks > 0
        )
