"""The runs of the last night as the page tells them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import humanize

from lakewarden.ledger.run_status import as_shown
from lakewarden.ledger.runs import Run
from lakewarden.model.policy import Job
from lakewarden.reports.runs import run_facts
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec

NIGHT = timedelta(hours=24)
MOST_RUNS = 50
WHEN_QUIET = 5


def last_runs(deployment: Deployment, jobs: Mapping[Job, JobSpec], now: datetime) -> dict[str, Any]:
    """The runs of the last 24 hours, newest first; where there were none, the last few before."""
    latest = deployment.ledger.runs.list(MOST_RUNS)
    recent = [run for run in latest if run.started_at >= now - NIGHT]
    shown = (as_shown(run, deployment.leases, now) for run in recent or latest[:WHEN_QUIET])
    return {"recent": bool(recent), "runs": [{**run_facts(run, jobs), **_times(run)} for run in shown]}


def _times(run: Run) -> dict[str, Any]:
    took = humanize.precisedelta(run.finished_at - run.started_at, format="%d") if run.finished_at else ""
    return {"at": run.started_at, "took": took}
