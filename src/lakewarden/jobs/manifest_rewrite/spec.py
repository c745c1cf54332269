"""Manifest rewrite: clusters an Iceberg table's manifests by partition, where that helps."""

from __future__ import annotations

from lakewarden.jobs.manifest_rewrite.settings import ManifestRewrite
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

MANIFEST_REWRITE = JobSpec(
    name=Job.MANIFEST_REWRITE,
    does="clusters an Iceberg table's manifests by partition, where that helps",
    settings=ManifestRewrite,
    changes=("manifests",),
    deletes=False,
    words=Words(
        fate="to rewrite",
        done="rewritten",
        cutoff="no data file is touched",
        verb="Rewrite",
        undo="No row was changed. An engine can roll the table back to the snapshot before, until that one expires.",
    ),
    after=(Job.SNAPSHOT_EXPIRY, Job.PARTITION_EXPIRY),
)
