"""Physical deletion: removes the files that expiry released, after asking every table again."""

from __future__ import annotations

from lakewarden.jobs.physical_deletion.settings import PhysicalDeletion
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

PHYSICAL_DELETION = JobSpec(
    name=Job.PHYSICAL_DELETION,
    does="removes the files that expiry released, after asking every table again",
    settings=PhysicalDeletion,
    changes=("files",),
    deletes=True,
    words=Words(
        cutoff="files released after {} wait",
        all_files="released",
        needed="needed again",
        undo="What was deleted cannot be brought back, but for snapshots that tier-handoff had copied: restore --from-cold"
        ' opens them. With delete_mode = "quarantine" files can, for some days.',
    ),
    after=(Job.SNAPSHOT_EXPIRY, Job.TIER_HANDOFF),
    needs={Job.TIER_HANDOFF: "files of expired snapshots would be deleted before they are copied to the cold tier"},
)
