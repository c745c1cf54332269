"""Is the journal whole?"""

from __future__ import annotations

from typing import Any

from lakewarden.ledger.heads import verify_heads
from lakewarden.model.errors import NotFoundError
from lakewarden.steps.deployment import Deployment

RUNS_LOOKED_AT = 10_000


def verify(deployment: Deployment, run_id: str | None) -> dict[str, Any]:
    """Recompute the journal's chains, of one run or of all, and compare their heads with the ones kept beside them."""
    ledger = deployment.ledger
    runs = [ledger.runs.get(run_id)] if run_id else ledger.runs.list(limit=RUNS_LOOKED_AT)
    if run_id and runs == [None]:
        raise NotFoundError(f"there is no run {run_id}")
    known = [run for run in runs if run is not None]
    problems = [f"run {run.run_id}: {text}" for run in known for text in ledger.journal.verify(run.run_id)]
    heads = {run.run_id: ledger.journal.head(run.run_id) for run in known if run.finished_at is not None}
    problems += verify_heads(deployment.stores, deployment.state, heads)
    return {"ok": not problems, "runs": len(known), "problems": problems}
