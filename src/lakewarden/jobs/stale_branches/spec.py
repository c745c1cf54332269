"""Stale branches: finds branches that lead nowhere any more, and removes those that a policy names."""

from __future__ import annotations

from lakewarden.jobs.stale_branches.settings import StaleBranches
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

STALE_BRANCHES = JobSpec(
    name=Job.STALE_BRANCHES,
    does="finds branches that lead nowhere any more, and removes those that a policy names",
    settings=StaleBranches,
    changes=("refs", "branches"),
    deletes=False,
    words=Words(
        fate="to remove",
        done="removed",
        cutoff="no file is touched: snapshots that no ref needs any more are snapshot-expiry's",
        verb="Remove",
        undo="What was removed is on the run's record: {restore} makes it again where its snapshot is still there.",
    ),
    ability="branch_keeper",
)
