"""Undo: bring back what a run put into quarantine, create-only."""

from __future__ import annotations

from lakewarden.jobs.purging import LEASE_SECONDS, trash_lease, trash_of
from lakewarden.jobs.rooms import Rooms
from lakewarden.ledger.heads import write_head
from lakewarden.ledger.standing import run_lease
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, RestoreError
from lakewarden.model.plan import Tally
from lakewarden.model.run import FailedFile, RunResult, RunStatus
from lakewarden.model.verdict import Outcome
from lakewarden.storage.quarantine import restore

BATCH = 500


def restore_run(rooms: Rooms, run_id: str, actor: Actor) -> RunResult:
    """Put every quarantined file of a run back where it was. A place that is taken meanwhile is left alone."""
    run = rooms.ledger.runs.get(run_id)
    if run is None:
        raise NotFoundError(f"there is no run {run_id}; nothing was restored")
    files = [file for file, _ in rooms.ledger.journal.outcome_rows(run_id, Outcome.QUARANTINED)]
    if not files:
        raise RestoreError(f"run {run_id} put nothing into quarantine; nothing was restored")
    new_id = rooms.new_id()
    back, failed = Tally(), []
    with (
        rooms.leases.acquire(trash_lease(run_id), LEASE_SECONDS) as lease,
        rooms.leases.acquire(run_lease(new_id), LEASE_SECONDS),
    ):
        rooms.ledger.runs.start(new_id, run.job, None, actor)
        for start in range(0, len(files), BATCH):
            lease.check()
            some = files[start : start + BATCH]
            outcomes = restore(rooms.stores, trash_of(rooms), run_id, [file.uri for file in some])
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
    rooms.ledger.runs.step(run_id, "restored", {"by": new_id, "files": back.files})
    rooms.ledger.runs.finish(new_id, result.status, result.as_json())
    write_head(rooms.stores, rooms.state, new_id, rooms.ledger.journal.head(new_id))
    return result
