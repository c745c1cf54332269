"""Snapshot expiry: takes old snapshots and refs out of the metadata; their files wait."""

from __future__ import annotations

from lakewarden.jobs.snapshot_expiry.settings import SnapshotExpiry
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

SNAPSHOT_EXPIRY = JobSpec(
    name=Job.SNAPSHOT_EXPIRY,
    does="takes old snapshots, branches and tags out of the metadata; their files wait",
    settings=SnapshotExpiry,
    changes=("snapshots", "refs", "changelogs"),
    deletes=False,
    words=Words(
        fate="to expire",
        done="expired",
        label="TO RELEASE",
        cutoff="files are only released: physical-deletion takes them later",
        verb="Expire",
        undo="Expired snapshots cannot be put back into their table; their files stay until physical-deletion takes them.",
    ),
    after=(Job.LINEAGE_CHECK, Job.HISTORY, Job.STALE_BRANCHES),
)
