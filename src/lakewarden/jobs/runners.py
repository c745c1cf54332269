"""Which code applies the plans of a job that deletes no files. Loaded when asked for: most commands need none of it."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from lakewarden.jobs.rooms import Rooms
from lakewarden.ledger.lease import Lease
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult, RunResult

RUNNERS = {
    Job.SNAPSHOT_EXPIRY: ("lakewarden.jobs.expiring", "Expiring"),
    Job.PARTITION_EXPIRY: ("lakewarden.jobs.dropping", "Dropping"),
    Job.TIER_HANDOFF: ("lakewarden.jobs.handing", "Handing"),
    Job.MANIFEST_REWRITE: ("lakewarden.jobs.clustering", "Clustering"),
}


class Run(Protocol):
    """One run of one plan."""

    def run(self) -> RunResult: ...


class Runner(Protocol):
    def __call__(self, rooms: Rooms, result: PlanResult, run_id: str, lease: Lease, progress: Progress) -> Run: ...


def runner_of(job: str) -> Runner:
    module, name = RUNNERS[Job(job)]
    found: Runner = getattr(import_module(module), name)
    return found
