"""Runs and requests as pages tell them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.requests import Request
from lakewarden.ledger.runs import Run
from lakewarden.model.service import RequestKind, RequestStatus
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
    RequestKind.RESTORE_DRILL: "restore drill",
    RequestKind.FORECAST: "forecast",
    RequestKind.AUDIT: "audit",
}
# How the words go on where a request is of one job.
OF_A_JOB = {RequestKind.PLAN: " ", RequestKind.RUN: " ", RequestKind.APPLY: " of "}


def run_row(service: Service, run: Run, now: datetime) -> dict[str, Any]:
    """A run on one line: its status as it is by now, and in the job's words what came of it."""
    facts = run_facts(run, JOBS)
    if run.finished_at is None:
        facts["status"] = service.warden.run_detail(run.run_id)["status"]
    return {**facts, "at": run.started_at, "ended": run.finished_at, "took": lasted(run.started_at, run.finished_at)}


def title_of(request: Request) -> str:
    """What was asked for, in words: `plan orphan-cleanup`."""
    words = KINDS[request.kind]
    return f"{words}{OF_A_JOB[request.kind]}{request.job}" if request.job and request.kind in OF_A_JOB else words


def open_requests(service: Service, order: Sequence[RequestStatus], most: int) -> tuple[list[Request], int]:
    """The newest requests of these states, those of the first state before all others, and how many more there are: what
    is at work is seen however much waits behind it."""
    requests, found = service.ledger.requests, list[Request]()
    for status in order:
        if len(found) < most:
            found += requests.list(status=[status], limit=most - len(found))
    return found, max(0, sum(requests.counts(order).values()) - len(found))
