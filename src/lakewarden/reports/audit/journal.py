"""Is the journal whole?"""

from __future__ import annotations

from typing import Any

from lakewarden.ledger.chain import noted_hash
from lakewarden.ledger.heads import FOLDER, verify_heads, verify_stops
from lakewarden.ledger.marks import heads_in, stops_in
from lakewarden.model.errors import NotFoundError
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.state_age import forgotten_runs, marks_left


def verify(deployment: Deployment, run_id: str | None) -> dict[str, Any]:
    """Recompute the journal's chains, of one run or of all, and compare them with what runs have left in the state location.

    A run that is not in the ledger any more shows by its marks; one that was ended shows by its head, also if the
    ledger says by now that it never ended; one that was stopped, by what its process had written last.
    """
    ledger = deployment.ledger

    def noted(one: str, many: int) -> str:
        return noted_hash(ledger.runs.steps(one)[:many])

    # The marks first: whatever is left there, the ledger knew of before.
    names = marks_left(deployment)
    found = [ledger.runs.get(run_id)] if run_id else ledger.runs.list(limit=None)
    known = [run for run in found if run is not None]
    forgotten = [forgot for forgot in forgotten_runs(deployment, names) if run_id in (None, forgot)]
    if not known and run_id and not forgotten:
        raise NotFoundError(f"there is no run {run_id}")
    kept = heads_in(names)
    problems = [f"run {run.run_id}: {text}" for run in known for text in ledger.journal.verify(run.run_id)]
    ended = [run.run_id for run in known if run.finished_at is not None or run.run_id in kept]
    heads = {one: ledger.journal.head(one) for one in ended}
    problems += verify_heads(deployment.stores, deployment.state, heads, noted)
    stops = stops_in(names)
    problems += [
        problem
        for run in known
        if run.run_id in stops
        for problem in verify_stops(
            deployment.stores, deployment.state, run.run_id, stops[run.run_id], ledger.journal.links(run.run_id), noted
        )
    ]
    problems += [
        f"run {forgot}: the ledger has forgotten it, or what it did last; its marks are in {deployment.state}{FOLDER}/"
        for forgot in forgotten
    ]
    return {"ok": not problems, "runs": len(known), "problems": problems}
