"""Undo: make again the branches that a run removed, as its record has them. Nothing that is there is ever replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.jobs.stale_branches.judged import told
from lakewarden.jobs.stale_branches.run import RECORDED, REMOVED
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.run_status import run_lease
from lakewarden.ledger.runs import Run, Step
from lakewarden.model.actor import Actor
from lakewarden.model.errors import BranchNotRestoredError, LakewardenError, NotFoundError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Progress
from lakewarden.model.run import RESTORED, FailedFile, RunResult, RunStatus
from lakewarden.steps.apply.ending import run_to_its_end
from lakewarden.steps.apply.guard import check_frozen
from lakewarden.steps.deployment import Deployment, required

Record = Mapping[str, Any]


def restore_branches(deployment: Deployment, run_id: str, actor: Actor, progress: Progress) -> RunResult:
    """Make every branch of a run's record again, each where its snapshot is still there and its name is free."""
    run = deployment.ledger.runs.get(run_id)
    if run is None:
        raise NotFoundError(f"there is no run {run_id}; nothing was restored")
    records = _removed(deployment.ledger.runs.steps(run_id))
    if not records:
        raise BranchNotRestoredError(f"run {run_id} removed no branch; nothing was restored")
    new_id = deployment.new_id()
    with (
        # Whoever goes on with the run would remove what is made here.
        deployment.leases.acquire(run_lease(run_id), MARGINS.lease_seconds) as lease,
        deployment.leases.acquire(run_lease(new_id), MARGINS.lease_seconds) as own,
    ):
        deployment.ledger.runs.start(new_id, run.job, None, actor)
        # Nobody can go on with a run without a plan; the same command restores what is left, as another run.
        return run_to_its_end(
            deployment,
            new_id,
            own,
            lambda: BranchRestore(deployment, run, new_id, list(records.items()), lease, progress),
            resumable=False,
        )


def _removed(steps: Sequence[Step]) -> dict[tuple[str, str], Record]:
    """The records of what a run removed, by place and name: a branch is written down before it is certain that it goes."""
    written = [step.detail for step in steps if step.name == RECORDED]
    # A second try records a branch again, as it was then.
    records = {(step["table"], record["name"]): record for step in written for record in step["records"]}
    left = {(s.detail["table"], name) for s in steps if s.name == REMOVED for name in s.detail["left"]}
    return {key: record for key, record in records.items() if key not in left}


class BranchRestore:
    """The branches of one run on their way back."""

    def __init__(
        self,
        deployment: Deployment,
        run: Run,
        new_id: str,
        records: Sequence[tuple[tuple[str, str], Record]],
        lease: Lease,
        progress: Progress,
    ) -> None:
        self.deployment = deployment
        self.run = run
        self.new_id = new_id
        self.records = records
        self.lease = lease
        self.progress = progress
        self.back: list[str] = []
        self.failed: list[FailedFile] = []

    def do(self) -> None:
        for done, ((place, name), record) in enumerate(self.records):
            self.progress("restore", done, len(self.records))
            self.lease.check()
            check_frozen(self.deployment, "no further branch was restored")
            keeper = required(self.deployment.format_of(place).branch_keeper, place)
            try:
                keeper.restore(place, record, self.deployment.clock.now())
            except LakewardenError as error:
                self.failed.append(FailedFile(f"{place} {name}", error.code, error.message))
            else:
                self.back.append(told(place, name))
        self.progress("restore", len(self.records), len(self.records))
        self.deployment.ledger.runs.step(self.run.run_id, RESTORED, {"by": self.new_id, "branches": self.back})

    def result(self, error: LakewardenError | None = None) -> RunResult:
        cut_short = RunStatus.PARTIAL if self.back else RunStatus.FAILED
        status = cut_short if self.failed else RunStatus.DONE
        return RunResult(
            run_id=self.new_id,
            plan_id=self.run.plan_id or "",
            job=self.run.job,
            status=cut_short if error else status,
            changed={RESTORED: len(self.back)},
            failed=tuple(self.failed),
        )
