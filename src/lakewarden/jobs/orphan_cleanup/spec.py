"""Orphan cleanup: removes files that no table needs."""

from __future__ import annotations

from lakewarden.jobs.orphan_cleanup.settings import OrphanCleanup
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

ORPHAN_CLEANUP = JobSpec(
    name=Job.ORPHAN_CLEANUP,
    does="removes files that no table needs",
    settings=OrphanCleanup,
    changes=("files",),
    deletes=True,
    words=Words(),
    aliases=("orphans",),
    after=(Job.SNAPSHOT_EXPIRY, Job.PHYSICAL_DELETION),
)
