"""Whether a run without an end on record is at work, or over because its process is gone.

A killed process can write nothing. What it leaves is the lease of its run, which nobody renews any more.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.ledger.leases import Leases
from lakewarden.ledger.processes import own_process, started_at
from lakewarden.ledger.runs import RUNNING, STOPPED, Run
from lakewarden.model.errors import LakewardenError
from lakewarden.model.lease import LeaseRecord, LeaseState, proven_dead
from lakewarden.model.margins import MARGINS


def run_lease(run_id: str) -> str:
    """The lease that whoever works on a run holds."""
    return f"run/{run_id}"


def as_shown(run: Run, leases: Leases, now: datetime) -> Run:
    """The run as it is to be shown: `stopped` if it says `running` and nobody can be at work on it."""
    if run.finished_at is not None or run.status != RUNNING:
        return run
    try:
        record = leases.look(run_lease(run.run_id))
    except LakewardenError:
        return run  # only shown, never acted upon: in doubt the record's own word stands
    return replace(run, status=STOPPED) if record is not None and _over(record, now) else run


def _over(record: LeaseRecord, now: datetime) -> bool:
    """Whether nobody holds the lease: given back, its process proven dead, or silent for longer than it lives."""
    if record.state is LeaseState.RELEASED:
        return True
    if record.process is not None and proven_dead(record.process, own_process(), started_at(record.process.pid)):
        return True
    return now - record.renewed_at > timedelta(seconds=record.ttl_seconds) + MARGINS.clock_skew
