"""Runs and leases as the record has them, as plain values: what `runs` and `leases` print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakewarden.model.lease import LeaseRecord, LeaseState
from lakewarden.model.policy import Job
from lakewarden.model.run import RESTORED, RunResult, RunStatus
from lakewarden.steps.job import JobSpec
from lakewarden.steps.summary import run_summary

if TYPE_CHECKING:  # `leases` opens no database.
    from lakewarden.ledger.database import Ledger
    from lakewarden.ledger.leases import Leases
    from lakewarden.ledger.progress import CleanupProgress
    from lakewarden.ledger.runs import Run

Facts = dict[str, Any]
# The state of a lease whose record cannot be read.
CORRUPT = "corrupt"


def run_facts(run: Run, jobs: Mapping[Job, JobSpec]) -> Facts:
    """One run. `summary` says in the job's own words what it changed; what an open run changed is not summed up yet."""
    result = run.result or {}
    closed = RunResult.of(result) if result else None
    return {
        "run_id": run.run_id,
        "job": run.job,
        "act": _act(run),
        "plan_id": run.plan_id,
        "status": run.status,
        "operator": run.actor.operator,
        "actor": asdict(run.actor),
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "summary": run_summary(jobs[Job(run.job)], closed) if closed else None,
        "changed": dict(closed.changed) if closed else None,
        "deleted": result.get("deleted", {}).get("files"),
        "failed": closed.failures if closed else 0,
        "result": run.result,
    }


def _act(run: Run) -> str:
    """What kind of run it is: one that applies a plan, one that ended with its plan, or one that brings files back."""
    if run.status == RunStatus.PLANNED:
        return "plan"
    # A restore has no plan of its own. Any other run without one is closed in the moment in which it is begun.
    restores = RESTORED in (run.result or {}).get("changed", {}) or (run.result is None and run.plan_id is None)
    return "restore" if restores else "apply"


def run_in_full(ledger: Ledger, run: Run, jobs: Mapping[Job, JobSpec]) -> Facts:
    """The same, and what the run noted on its way, what became of its files, and how far it is."""
    reached = ledger.progress.get(run.run_id)
    return {
        **run_facts(run, jobs),
        "steps": [{"name": s.name, "detail": s.detail, "at": s.at.isoformat()} for s in ledger.runs.steps(run.run_id)],
        "outcomes": {name: asdict(tally) for name, tally in ledger.journal.done(run.run_id).items()},
        "open_batches": [batch.batch_no for batch in ledger.journal.open_batches(run.run_id)],
        "progress": _progress(reached) if reached else None,
    }


def _progress(reached: CleanupProgress) -> Facts:
    """How far a run is with its files, since when, and where."""
    return {
        "root": reached.scope,
        "processed": reached.processed,
        "of": reached.total_candidates,
        "deleted": reached.deleted,
        "failed": reached.failed,
        "since": reached.started_at.isoformat(),
        "at": reached.last_checkpoint_at.isoformat(),
    }


def leases_as_shown(leases: Leases, now: datetime) -> list[Facts]:
    """Every lease in the order of its key; then the records that cannot be read, by their addresses."""
    found = leases.every()
    records = sorted((record for _, record in found if record is not None), key=lambda record: record.key)
    nothing = dict.fromkeys(("holder", "epoch", "renewed_at", "ttl_seconds"))
    corrupt = [{"key": uri, "state": CORRUPT, "status": CORRUPT, **nothing} for uri, record in found if record is None]
    return [*(lease_facts(record, now) for record in records), *corrupt]


def lease_facts(record: LeaseRecord, now: datetime) -> Facts:
    """A lease; with `work` where it is for the rewriting of files, and with `note` where somebody left one.

    Its age is by two wall clocks, its holder's and ours: for people.
    """
    more: Facts = {"work": asdict(record.work)} if record.work is not None else {}
    if record.state is LeaseState.HELD:
        more["age_seconds"] = max(0.0, round((now - record.acquired_at).total_seconds(), 3))
    return {
        "key": record.key,
        "holder": record.holder,
        "epoch": record.epoch,
        "state": str(record.state),
        "renewed_at": record.renewed_at.isoformat(),
        "ttl_seconds": record.ttl_seconds,
        "status": str(record.status),
        "acquired_at": record.acquired_at.isoformat(),
        **({"note": record.note} if record.note else {}),
        **more,
    }
