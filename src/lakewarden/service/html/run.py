"""What the page of one run tells, as plain values."""

from __future__ import annotations

from typing import Any

from lakewarden.ledger.runs import Run
from lakewarden.model.run import RunResult, RunStatus
from lakewarden.service.html.paging import Pages
from lakewarden.service.html.steps import MOST_STEPS, steps_of
from lakewarden.service.html.trash import trash_of
from lakewarden.service.html.words import lasted
from lakewarden.service.service import Service

BATCHES = 25


def run_content(service: Service, run: Run, offset: int) -> dict[str, Any]:
    """Steps, batches, errors and what can still be done with the run."""
    full = service.warden.run_detail(run.run_id)
    batches, total = service.ledger.activity.batches(run.run_id, offset, BATCHES)
    result = RunResult.of(run.result) if run.result else None
    requests = service.ledger.requests.list(plan_id=run.plan_id) if run.plan_id else []
    mine = next((one for one in requests if one.run_id == run.run_id or not one.status.is_over), None)
    steps = steps_of(service.ledger.requests.newest_events(mine.request_id) if mine else (), full["steps"])
    return {
        "run": run,
        "full": full,
        "status": full["status"],
        "result": result,
        "took": lasted(run.started_at, run.finished_at),
        "steps": steps[-MOST_STEPS:],
        "steps_left_out": max(0, len(steps) - MOST_STEPS),
        # Of a run that did all it should, the journal says more.
        "progress": full["progress"] if full["status"] != RunStatus.DONE else None,
        "offset": offset,
        "batches": batches,
        "pages": Pages.of(f"/runs/{run.run_id}", {}, offset, len(batches), total, BATCHES),
        "request": mine if mine and not mine.status.is_over else None,
        "trash": trash_of(service, run),
    }
