"""Undo: bring back what a run put into quarantine, create-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.ledger.lease import Lease
from lakewarden.ledger.run_status import run_lease
from lakewarden.ledger.runs import Run
from lakewarden.model.actor import Actor
from lakewarden.model.errors import LakewardenError, NotFoundError, RestoreError
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import Tally
from lakewarden.model.ports import JournalFile, Progress
from lakewarden.model.run import RESTORED, FailedFile, RunResult, RunStatus
from lakewarden.model.verdict import Outcome
from lakewarden.steps.apply.ending import run_to_its_end
from lakewarden.steps.apply.lease_metrics import counting_leases
from lakewarden.steps.apply.removal import digest_of
from lakewarden.steps.apply.trash import trash_lease, trash_of
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.quarantine import back_already, restore

BATCH = 500


def restore_run(deployment: Deployment, run_id: str, actor: Actor, progress: Progress) -> RunResult:
    """Put every quarantined file of a run back where it was. A place that is taken meanwhile is left alone."""
    run = deployment.ledger.runs.get(run_id)
    if run is None:
        raise NotFoundError(f"there is no run {run_id}; nothing was restored")
    rows = list(deployment.ledger.journal.outcome_rows(run_id, Outcome.QUARANTINED))
    files = [file for file, _ in rows]
    digests = {file.uri: digest_of(outcome) for file, outcome in rows}
    if not files:
        raise RestoreError(f"run {run_id} put nothing into quarantine; nothing was restored")
    new_id = deployment.new_id()
    with (
        counting_leases(deployment),
        deployment.leases.acquire(trash_lease(run_id), MARGINS.lease_seconds) as lease,
        deployment.leases.acquire(run_lease(new_id), MARGINS.lease_seconds) as own,
    ):
        deployment.ledger.runs.start(new_id, run.job, None, actor)
        # Nobody can go on with a run without a plan; the same command restores what is left, as another run.
        return run_to_its_end(
            deployment,
            new_id,
            own,
            lambda: TrashRestore(deployment, run, new_id, files, digests, lease, progress),
            resumable=False,
        )


class TrashRestore:
    """The files of one run on their way back from the trash."""

    def __init__(
        self,
        deployment: Deployment,
        run: Run,
        new_id: str,
        files: Sequence[JournalFile],
        digests: Mapping[str, str | None],
        lease: Lease,
        progress: Progress,
    ) -> None:
        self.deployment = deployment
        self.run = run
        self.new_id = new_id
        self.files = files
        self.digests = digests
        self.lease = lease
        self.progress = progress
        self.back = Tally()
        self.failed: list[FailedFile] = []

    def do(self) -> None:
        for start in range(0, len(self.files), BATCH):
            self.progress("restore", start, len(self.files))
            self.lease.check()
            some = self.files[start : start + BATCH]
            trash = trash_of(self.deployment)
            uris = [file.uri for file in some]
            outcomes = restore(self.deployment.stores, trash, self.run.run_id, uris, self.digests)
            for file, outcome in zip(some, outcomes, strict=True):
                if outcome.outcome == Outcome.KEPT:
                    self.back += Tally(1, file.size)
                elif outcome != back_already(file.uri):
                    code, why = outcome.code or RestoreError.code, outcome.message or outcome.outcome
                    self.failed.append(FailedFile(file.uri, code, why))
        self.progress("restore", len(self.files), len(self.files))
        self.deployment.ledger.runs.step(self.run.run_id, RESTORED, {"by": self.new_id, "files": self.back.files})

    def result(self, error: LakewardenError | None = None) -> RunResult:
        cut_short = RunStatus.PARTIAL if self.back.files else RunStatus.FAILED
        status = RunStatus.PARTIAL if self.failed else RunStatus.DONE
        return RunResult(
            run_id=self.new_id,
            plan_id=self.run.plan_id or "",
            job=self.run.job,
            status=cut_short if error else status,
            changed={RESTORED: self.back.files},
            failed=tuple(self.failed),
        )
