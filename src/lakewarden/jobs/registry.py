"""Every job that can be run, in the order of a day. A new job is one package, with a `spec.py`, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from lakewarden.jobs.compaction.spec import COMPACTION
from lakewarden.jobs.history.spec import HISTORY
from lakewarden.jobs.lineage_check.spec import LINEAGE_CHECK
from lakewarden.jobs.manifest_rewrite.spec import MANIFEST_REWRITE
from lakewarden.jobs.orphan_cleanup.spec import ORPHAN_CLEANUP
from lakewarden.jobs.partition_expiry.spec import PARTITION_EXPIRY
from lakewarden.jobs.physical_deletion.spec import PHYSICAL_DELETION
from lakewarden.jobs.snapshot_expiry.spec import SNAPSHOT_EXPIRY
from lakewarden.jobs.stale_branches.spec import STALE_BRANCHES
from lakewarden.jobs.tier_handoff.spec import TIER_HANDOFF
from lakewarden.model.errors import UsageError
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec
from lakewarden.steps.section import JobSection

JOBS: Mapping[Job, JobSpec] = {
    spec.name: spec
    for spec in (
        LINEAGE_CHECK,
        HISTORY,
        STALE_BRANCHES,
        SNAPSHOT_EXPIRY,
        PARTITION_EXPIRY,
        COMPACTION,
        MANIFEST_REWRITE,
        TIER_HANDOFF,
        PHYSICAL_DELETION,
        ORPHAN_CLEANUP,
    )
}
ALIASES = {alias: spec for spec in JOBS.values() for alias in spec.aliases}
# A section may be written for any job that has a name, also before the job itself is there.
SECTIONS: Mapping[str, type[JobSection]] = {
    job.section: JOBS[job].settings if job in JOBS else JobSection for job in Job
}


def job_named(name: str) -> JobSpec:
    """The job of that name or alias. Raises UsageError for any that cannot be run."""
    spec = ALIASES.get(name) or next((spec for spec in JOBS.values() if spec.name == name), None)
    if spec is not None:
        return spec
    names = [*JOBS, *ALIASES]
    close = get_close_matches(name, names, 1)
    guess = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"there is no job {name!r} to run{guess}; nothing was done", hint=f"Jobs: {', '.join(names)}.")
