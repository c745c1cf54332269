"""Partition expiry: drops partitions by age, in one commit of metadata."""

from __future__ import annotations

from lakewarden.jobs.partition_expiry.settings import PartitionExpiry
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

PARTITION_EXPIRY = JobSpec(
    name=Job.PARTITION_EXPIRY,
    does="drops partitions by age, in one commit of metadata",
    settings=PartitionExpiry,
    changes=("partitions",),
    deletes=False,
    words=Words(
        fate="to drop",
        done="dropped",
        cutoff="files stay until their snapshots expire",
        verb="Drop",
        undo="An engine can roll a table back to the snapshot before, until that one expires.",
    ),
    after=(Job.SNAPSHOT_EXPIRY,),
)
