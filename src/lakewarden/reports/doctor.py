"""The doctor: what is wrong, doubtful or left undone in a fleet, read from catalogs, metadata and the ledger. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.brakes import CODES
from lakewarden.model.errors import Refusal
from lakewarden.model.lease import LeaseState
from lakewarden.model.plan import TablePlan, Tally
from lakewarden.model.policy import Job
from lakewarden.model.verdict import Brake, Verdict
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, load_fleet
from lakewarden.steps.observe.state_age import forgotten_runs

FOREIGN, FORK = "LW-ROOT-002", "LW-ROOT-003"
PLANS_LOOKED_AT = 100
RUNS_LOOKED_AT = 1000

Facts = dict[str, Any]


def examine(deployment: Deployment) -> Facts:
    """A report on the whole fleet as plain values. Reads only."""
    fleet = load_fleet(deployment, deployment.clock.now())
    plans = deployment.ledger.plans.list(Job.ORPHAN_CLEANUP, PLANS_LOOKED_AT)
    present = {state.identifier for state in fleet.states}
    planned, maintained = _plans_of_tables(deployment, plans, present)
    refused = dict(_refused(fleet, planned))
    return {
        "tables": len(fleet.states),
        "roots": len(fleet.roots),
        "refused": [_refusal(name, why) for name, why in sorted(refused.items())],
        "doubts": [
            {"table": doubt.table, "code": doubt.code, "message": f"it {doubt.why}", "hint": doubt.hint}
            for doubt in fleet.doubts
        ],
        "shared_roots": list(_shared(fleet)),
        "nested_roots": list(_nested(fleet)),
        "forks": [_refusal(name, why) for name, why in sorted(refused.items()) if why.code == FORK],
        "unknown_uuids": [_refusal(name, why) for name, why in sorted(refused.items()) if why.code == FOREIGN],
        "missing_live_files": [
            _refusal(name, table.refusal)
            for name, (_, table) in sorted(planned.items())
            if table.refusal and table.refusal.code == CODES[Brake.LIVE_MISSING]
        ],
        "broken_refs": list(_broken_refs(fleet)),
        "never_maintained": sorted(present - maintained),
        "reclaimable": asdict(_reclaimable(planned)),
        "newest_plan": _plan(plans[0]) if plans else None,
        "stale_leases": list(_stale_leases(deployment)),
        "open_intents": list(_open_intents(deployment)),
        "forgotten_runs": forgotten_runs(deployment),
    }


def _plans_of_tables(
    deployment: Deployment, plans: list[SavedPlan], present: set[str]
) -> tuple[dict[str, tuple[SavedPlan, TablePlan]], set[str]]:
    """Of each table the newest plan that looked at it; and the tables that some run has cleaned."""
    newest: dict[str, tuple[SavedPlan, TablePlan]] = {}
    maintained: set[str] = set()
    for saved in plans:
        header = deployment.ledger.plans.header(saved.plan_id)
        for table in header.tables if header else ():
            if table.identifier in present:
                newest.setdefault(table.identifier, (saved, table))
            if saved.used_by is not None and table.refusal is None:
                maintained.add(table.identifier)
    return newest, maintained


def _refused(fleet: Fleet, planned: dict[str, tuple[SavedPlan, TablePlan]]) -> Iterator[tuple[str, Refusal]]:
    """Tables that are left alone: by what the newest plan saw, and before that by what is visible right now."""
    for name, (_, table) in planned.items():
        if table.refusal is not None:
            yield name, table.refusal
    for root in fleet.roots:
        if root.refusal is not None:
            yield from ((name, root.refusal) for name in root.tables)
    for state in fleet.states:
        if state.refusal is not None:
            yield state.identifier, state.refusal


def _refusal(table: str, why: Refusal) -> Facts:
    return {"table": table, **asdict(why)}


def _shared(fleet: Fleet) -> Iterator[Facts]:
    """Directories that more than one table writes to."""
    users: dict[str, list[str]] = {}
    for claim in fleet.claims:
        users.setdefault(claim.prefix, []).append(claim.identifier)
    for prefix, tables in sorted(users.items()):
        if len(tables) > 1:
            yield {"prefix": prefix, "tables": sorted(tables)}


def _nested(fleet: Fleet) -> Iterator[Facts]:
    """Directories of one table that lie within another table's."""
    for root in fleet.roots:
        inside = {
            claim.identifier: claim.prefix
            for claim in fleet.claims
            if claim.prefix != root.prefix and claim.prefix.startswith(root.prefix)
        }
        outer = {claim.identifier for claim in fleet.claims if claim.prefix == root.prefix}
        for name in sorted(inside.keys() - outer):
            yield {"prefix": root.prefix, "tables": sorted(outer), "inside": inside[name], "table": name}


def _broken_refs(fleet: Fleet) -> Iterator[Facts]:
    """Branches and tags whose snapshot the metadata does not hold."""
    for state in fleet.states:
        for ref in state.refs:
            if ref.snapshot_id not in state.snapshot_ids:
                yield {"table": state.identifier, "ref": ref.name, "snapshot_id": ref.snapshot_id}


def _reclaimable(planned: dict[str, tuple[SavedPlan, TablePlan]]) -> Tally:
    """What the newest plans would free, where nobody has applied them."""
    total = Tally()
    for saved, table in planned.values():
        if table.refusal is None and saved.used_by is None:
            total += table.verdicts.get(Verdict.ORPHAN, Tally())
    return total


def _plan(saved: SavedPlan) -> Facts:
    return {
        "plan_id": saved.plan_id,
        "path": saved.path,
        "created_at": saved.created_at.isoformat() if saved.created_at else None,
        "used_by": saved.used_by,
    }


def _stale_leases(deployment: Deployment) -> Iterator[Facts]:
    """Leases whose holder has been silent for longer than they live. By wall clocks, so a hint and no proof."""
    now = deployment.clock.now()
    for record in deployment.leases.list():
        if record.state is LeaseState.HELD and now > record.renewed_at + timedelta(seconds=record.ttl_seconds):
            yield {"key": record.key, "holder": record.holder, "renewed_at": record.renewed_at.isoformat()}


def _open_intents(deployment: Deployment) -> Iterator[Facts]:
    """Batches that were announced and never recorded: the next apply of their plan settles them."""
    for run in deployment.ledger.runs.list(RUNS_LOOKED_AT):
        if run.finished_at is None:
            for batch in deployment.ledger.journal.open_batches(run.run_id):
                yield {"run_id": run.run_id, "plan_id": run.plan_id, "batch": batch.batch_no, "files": len(batch.files)}
