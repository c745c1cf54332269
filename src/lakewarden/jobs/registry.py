"""Which code applies the plans of a job that deletes no files. Loaded when asked for: most commands need none of it."""

from __future__ import annotations

from importlib import import_module

from lakewarden.model.policy import Job
from lakewarden.steps.apply.apply import Runner

RUNNERS = {
    Job.SNAPSHOT_EXPIRY: ("lakewarden.jobs.snapshot_expiry.run", "ExpiryRun"),
    Job.PARTITION_EXPIRY: ("lakewarden.jobs.partition_expiry.run", "DropRun"),
    Job.TIER_HANDOFF: ("lakewarden.jobs.tier_handoff.run", "HandoffRun"),
    Job.MANIFEST_REWRITE: ("lakewarden.jobs.manifest_rewrite.run", "RewriteRun"),
}


def runner_of(job: str) -> Runner:
    module, name = RUNNERS[Job(job)]
    found: Runner = getattr(import_module(module), name)
    return found
