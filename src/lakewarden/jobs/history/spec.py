"""History: archives what snapshots say of themselves before they expire, and sums up the months."""

from __future__ import annotations

from lakewarden.jobs.history.settings import History
from lakewarden.model.policy import Job
from lakewarden.steps.job import JobSpec, Words

HISTORY = JobSpec(
    name=Job.HISTORY,
    does="archives what snapshots say of themselves before they expire, and sums up each month",
    settings=History,
    changes=("rows", "months", "logs"),
    deletes=False,
    words=Words(
        fate="to archive",
        done="archived",
        label="TO ARCHIVE",
        cutoff="no file of a table is touched",
        waiting="with something to do",
        verb="Archive",
        others={"months": ("to sum up", "summed up"), "logs": ("to cut", "cut")},
        undo="No snapshot and no file was taken from a table: the archive lies in the state location.",
    ),
    ability="historian",
)
