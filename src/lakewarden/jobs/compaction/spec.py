"""Compaction: rewrites many small files, and files with many deletes, as few."""

from __future__ import annotations

from lakewarden.jobs.compaction.settings import Compaction
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

COMPACTION = JobSpec(
    name=Job.COMPACTION,
    does="rewrites many small files, and files with many deletes, as few",
    settings=Compaction,
    changes=("groups", "files"),
    deletes=False,
    words=Words(
        fate="to rewrite",
        done="rewritten",
        cutoff="no row changes, and old files stay until their snapshots expire",
        verb="Rewrite",
        undo="An engine can roll a table back to the snapshot before, until that one expires.",
    ),
    after=(Job.SNAPSHOT_EXPIRY, Job.PARTITION_EXPIRY),
    repeats=True,
)
