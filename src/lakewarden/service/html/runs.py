"""Runs and requests as pages tell them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.requests import Request
from lakewarden.ledger.runs import Run
from lakewarden.model.service import RequestKind
from lakewarden.reports.runs import run_facts
from lakewarden.service.html.words import lasted
from lakewarden.service.service import Service

KINDS = {
    RequestKind.PLAN: "plan",
    RequestKind.RUN: "run",
    RequestKind.APPLY: "apply a plan",
    RequestKind.NIGHT: "the night's jobs",
    RequestKind.OBSERVE: "look at the fleet",
    RequestKind.RESTORE: "restore from quarantine",
    RequestKind.RESTORE_COLD: "restore from the cold tier",
    RequestKind.FORECAST: "forecast",
    RequestKind.AUDIT: "audit",
}


def run_row(service: Service, run: Run, now: datetime) -> dict[str, Any]:
    """A run on one line: its status as it is by now, and in the job's words what came of it."""
    facts = run_facts(run, JOBS)
    if run.finished_at is None:
        facts["status"] = service.warden.run_detail(run.run_id)["status"]
    return {**facts, "at": run.started_at, "ended": run.finished_at, "took": lasted(run.started_at, run.finished_at)}


def title_of(request: Request) -> str:
    """What was asked for, in words: `plan orphan-cleanup`."""
    words = KINDS[request.kind]
    return f"{words} {request.job}" if request.job and request.kind in (RequestKind.PLAN, RequestKind.RUN) else words
