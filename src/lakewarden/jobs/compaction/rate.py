"""How fast groups are rewritten: what earlier runs noted in the ledger."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.ledger.database import Ledger
from lakewarden.model.policy import Job

# The step of a run that says how many bytes one round rewrote, and in how many seconds. Its rest is not counted.
WORKED = "worked"
RUNS_LOOKED_AT = 20


def measured(ledger: Ledger) -> Iterator[tuple[int, float]]:
    """Bytes and seconds of each round of the newest runs."""
    for run in ledger.runs.list(RUNS_LOOKED_AT, Job.COMPACTION):
        for step in ledger.runs.steps(run.run_id):
            if step.name == WORKED:
                yield int(step.detail["bytes"]), float(step.detail["seconds"])
