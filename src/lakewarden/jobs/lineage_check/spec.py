"""Lineage check: finds snapshots that do not say what their table requires."""

from __future__ import annotations

from lakewarden.jobs.lineage_check.settings import LineageCheck
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

LINEAGE_CHECK = JobSpec(
    name=Job.LINEAGE_CHECK,
    does="finds snapshots that do not say what their table requires of commits",
    settings=LineageCheck,
    changes=("violations",),
    deletes=False,
    words=Words(
        fate="to record",
        done="recorded",
        label="TO RECORD",
        cutoff="no table is changed",
        waiting="with something to do",
        verb="Record",
        undo="No table was changed: the record is in the run.",
    ),
    ability="historian",
)
