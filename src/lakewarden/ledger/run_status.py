"""Whether a run without an end on record is at work, or over because its process is gone.

A killed process can write nothing. What it leaves is the lease of its run, which nobody renews any more.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.ledger.leases import Leases
from lakewarden.ledger.processes import own_process, started_at
from lakewarden.ledger.runs import Run
from lakewarden.ledger.statuses import RUNNING, STOPPED
from lakewarden.model.errors import LakewardenError, LeaseHeldError
from lakewarden.model.lease import LeaseRecord, LeaseState, proven_dead
from lakewarden.model.margins import MARGINS

RUN = "run/"


def run_lease(run_id: str) -> str:
    """The lease that whoever works on a run holds."""
    return f"{RUN}{run_id}"


def as_shown(run: Run, leases: Leases, now: datetime) -> Run:
    """The run as it is to be shown: `stopped` if it says `running` and nobody can be at work on it."""
    if run.finished_at is not None or run.status != RUNNING:
        return run
    try:
        record = leases.look(run_lease(run.run_id))
    except LakewardenError:
        return run  # only shown, never acted upon: in doubt the record's own word stands
    return replace(run, status=STOPPED) if record is not None and over(record, now) else run


def over(record: LeaseRecord, now: datetime) -> bool:
    """Whether nobody holds the lease: given back, its process proven dead, or silent for longer than it lives."""
    if record.state is LeaseState.RELEASED:
        return True
    if record.process is not None and proven_dead(record.process, own_process(), started_at(record.process.pid)):
        return True
    return now - record.renewed_at > timedelta(seconds=record.ttl_seconds) + MARGINS.clock_skew


def naming_its_run(error: LeaseHeldError, leases: Leases) -> LeaseHeldError:
    """The error, with the run that holds the lease where it is one of this deployment's.

    The process that holds a root also holds the lease of its run, which it took before: so the two name one process.
    """
    record = error.record
    if record is None:
        return error
    try:
        held = [record] if record.key.startswith(RUN) else [one for one in leases.list() if _of_one(one, record)]
    except LakewardenError:
        return error  # the holder's name is told already
    if not held:
        return error
    run_id = max(held, key=lambda lease: lease.acquired_at).key.removeprefix(RUN)
    return LeaseHeldError(
        f"{error.message}. It is run {run_id} of this deployment: lakewarden runs {run_id}",
        record=record,
        hint=f"Wait until run {run_id} has ended, then run the command again; `lakewarden leases` shows its leases.",
    )


def _of_one(one: LeaseRecord, other: LeaseRecord) -> bool:
    """Whether the first is a run's lease, taken before the other by the process that holds both."""
    same = one.process is not None and (one.holder, one.process) == (other.holder, other.process)
    earlier = one.acquired_at <= other.acquired_at
    return same and earlier and one.key.startswith(RUN) and one.state is LeaseState.HELD
