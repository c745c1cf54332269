"""Undo: bring back what a run put into quarantine, create-only."""

from __future__ import annotations

from lakewarden.ledger.heads import write_head
from lakewarden.ledger.run_status import run_lease
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, RestoreError
from lakewarden.model.plan import Tally
from lakewarden.model.run import FailedFile, RunResult, RunStatus
from lakewarden.model.verdict import Outcome
from lakewarden.steps.apply.trash import LEASE_SECONDS, trash_lease, trash_of
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.quarantine import restore

BATCH = 500


def restore_run(deployment: Deployment, run_id: str, actor: Actor) -> RunResult:
    """Put every quarantined file of a run back where it was. A place that is taken meanwhile is left alone."""
    run = deployment.ledger.runs.get(run_id)
    if run is None:
        raise NotFoundError(f"there is no run {run_id}; nothing was restored")
    files = [file for file, _ in deployment.ledger.journal.outcome_rows(run_id, Outcome.QUARANTINED)]
    if not files:
        raise RestoreError(f"run {run_id} put nothing into quarantine; nothing was restored")
    new_id = deployment.new_id()
    back, failed = Tally(), []
    with (
        deployment.leases.acquire(trash_lease(run_id), LEASE_SECONDS) as lease,
        deployment.leases.acquire(run_lease(new_id), LEASE_SECONDS),
    ):
        deployment.ledger.runs.start(new_id, run.job, None, actor)
        for start in range(0, len(files), BATCH):
            lease.check()
            some = files[start : start + BATCH]
            outcomes = restore(deployment.stores, trash_of(deployment), run_id, [file.uri for file in some])
            for file, outcome in zip(some, outcomes, strict=True):
                if outcome.outcome == Outcome.KEPT:
                    back += Tally(1, file.size)
                else:
                    code, why = outcome.code or RestoreError.code, outcome.message or outcome.outcome
                    failed.append(FailedFile(file.uri, code, why))
    result = RunResult(
        run_id=new_id,
        plan_id=run.plan_id or "",
        job=run.job,
        status=RunStatus.PARTIAL if failed else RunStatus.DONE,
        changed={"restored": back.files},
        failed=tuple(failed),
    )
    deployment.ledger.runs.step(run_id, "restored", {"by": new_id, "files": back.files})
    deployment.ledger.runs.finish(new_id, result.status, result.as_json())
    write_head(deployment.stores, deployment.state, new_id, deployment.ledger.journal.head(new_id))
    return result
