"""The end of quarantine: a run's trash is removed when the days that its plan promised are over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lakewarden.ledger.runs import Run
from lakewarden.logs import bind
from lakewarden.model.errors import LakewardenError, LeaseHeldError
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import Plan
from lakewarden.model.verdict import Outcome
from lakewarden.steps.apply.trash_users import TrashUsers
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.quarantine import purge

RUNS_LOOKED_AT = 1000
SHOWN = 100
PURGED = "purged"


def trash_of(deployment: Deployment) -> str:
    """Where quarantined files lie: in the state, which is never under a root."""
    return f"{deployment.state}trash/"


def trash_lease(run_id: str) -> str:
    """The lease under which a run's trash is purged or restored, never both at once."""
    return f"trash/{run_id}"


def purge_old(deployment: Deployment, by_run: str) -> None:
    """Remove the trash of every run whose days are over, noted with that run and with the one that did it.

    A purge that fails is noted and left for the next run: the files stay restorable, which harms nobody.
    """
    for run in list(_over(deployment)):
        try:
            gone, kept = _purge(deployment, run)
        except LeaseHeldError:
            # Somebody restores or purges it right now.
            continue
        except LakewardenError as error:
            bind(run_id=by_run).warning("purge failed", purged_run=run.run_id, code=error.code, message=error.message)
            deployment.ledger.runs.step(
                by_run, "purge-failed", {"run": run.run_id, "code": error.code, "message": error.message}
            )
            continue
        deployment.ledger.runs.step(by_run, "purge", {"run": run.run_id, "files": gone})
        if kept:
            bind(run_id=by_run).warning("trash in use", purged_run=run.run_id, files=kept[:SHOWN])
            deployment.ledger.runs.step(by_run, "purge-kept", {"run": run.run_id, "files": kept[:SHOWN]})


def _purge(deployment: Deployment, run: Run) -> tuple[int, list[str]]:
    """How many files went, and those that stay because a table needs them, here or at the place that they came from."""
    gone = 0
    kept: list[str] = []
    quarantined = deployment.ledger.journal.outcome_rows(run.run_id, Outcome.QUARANTINED)
    users = TrashUsers.of(deployment, trash_of(deployment), run.run_id, (file.uri for file, _ in quarantined))
    with deployment.leases.waiting(0.0).acquire(trash_lease(run.run_id), MARGINS.lease_seconds) as lease:
        for outcomes in purge(
            deployment.stores,
            trash_of(deployment),
            run.run_id,
            deployment.clock,
            check_lease=lease.check,
            validate=users.check,
            needed=users.needed,
        ):
            failed = [outcome for outcome in outcomes if outcome.outcome == Outcome.FAILED]
            if failed:
                raise LakewardenError(f"{failed[0].uri} could not be purged ({failed[0].code} {failed[0].message})")
            kept += [outcome.uri for outcome in outcomes if outcome.outcome == Outcome.KEPT]
            gone += sum(outcome.outcome != Outcome.KEPT for outcome in outcomes)
        if not kept:
            deployment.ledger.runs.step(run.run_id, PURGED, {"files": gone})
    return gone, kept


def _over(deployment: Deployment) -> Iterator[Run]:
    """Finished runs with something in quarantine for longer than their own plan said."""
    now = deployment.clock.now()
    for run in deployment.ledger.runs.list(RUNS_LOOKED_AT):
        if run.finished_at is None or not ((run.result or {}).get("quarantined") or {}).get("files"):
            continue
        header = deployment.ledger.plans.header(run.plan_id) if run.plan_id else None
        if header is None or now < run.finished_at + promised(header):
            continue
        if not any(step.name == PURGED for step in deployment.ledger.runs.steps(run.run_id)):
            yield run


def promised(plan: Plan) -> timedelta:
    """For how long the plan says that its files stay restorable."""
    return timedelta(days=max((table.policy["quarantine_days"] for table in plan.tables if table.policy), default=0))
