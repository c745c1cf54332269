"""What the page of one run tells, as plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lakewarden.ledger.runs import Run
from lakewarden.model.redaction import redact
from lakewarden.model.run import RunResult
from lakewarden.service.html.paging import Pages
from lakewarden.service.html.words import lasted
from lakewarden.service.service import Service

BATCHES = 25
MOST_STEPS = 200


def run_content(service: Service, run: Run, offset: int) -> dict[str, Any]:
    """Steps, batches, errors and what can still be done with the run."""
    full = service.warden.run_detail(run.run_id)
    batches, total = service.ledger.activity.batches(run.run_id, offset, BATCHES)
    result = RunResult.of(run.result) if run.result else None
    requests = service.ledger.requests.list(plan_id=run.plan_id) if run.plan_id else []
    now = service.clock.now()
    until = result.restorable_until if result else None
    steps = [
        {**step, "at": datetime.fromisoformat(step["at"]), "words": detail_words(step["detail"])}
        for step in full["steps"]
    ]
    return {
        "run": run,
        "full": full,
        "status": full["status"],
        "result": result,
        "took": lasted(run.started_at, run.finished_at),
        "steps": steps[-MOST_STEPS:],
        "steps_left_out": max(0, len(steps) - MOST_STEPS),
        "progress": full["progress"],
        "batches": batches,
        "pages": Pages.of(f"/runs/{run.run_id}", {}, offset, len(batches), total, BATCHES),
        "request": next((one for one in requests if not one.status.is_over), None),
        "restorable": bool(result and result.quarantined.files and until and now < until),
        "until": until,
    }


def detail_words(detail: Any) -> str:
    """What a step noted, in words as far as it has them."""
    found = redact(detail)
    if found is None or isinstance(found, str):
        return found or ""
    if isinstance(found, Mapping):
        return ", ".join(
            f"{name.replace('_', ' ')}: {_short(value)}" for name, value in found.items() if value not in (None, [], {})
        )
    return _short(found)


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) > 5:
        return f"{len(value):,} of them"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return json.dumps(value, ensure_ascii=False, default=str)
