"""Tier handoff: copies expired snapshots to a cold place, where they open as tables."""

from __future__ import annotations

from lakewarden.jobs.tier_handoff.settings import TierHandoff
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

TIER_HANDOFF = JobSpec(
    name=Job.TIER_HANDOFF,
    does="copies expired snapshots to a cold place, where they open as tables",
    settings=TierHandoff,
    changes=("snapshots", "files"),
    deletes=False,
    words=Words(
        fate="to copy",
        done="copied",
        cutoff="files are copied, and none is deleted",
        verb="Copy",
        undo="No table was changed, so there is nothing to undo: the copies may be kept or deleted by hand.",
    ),
    after=(Job.SNAPSHOT_EXPIRY,),
    ability="relocator",
)
