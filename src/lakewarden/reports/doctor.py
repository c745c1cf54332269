"""The doctor: what is wrong, doubtful or left undone in a fleet, read from catalogs, metadata and the ledger. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.brakes import CODES
from lakewarden.model.errors import Refusal
from lakewarden.model.health import Health, Status
from lakewarden.model.lease import LeaseState
from lakewarden.model.verdict import Brake
from lakewarden.reports.overview import Overview, broken_refs, overview_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.steps.observe.state_age import forgotten_runs

FOREIGN, FORK = "LW-ROOT-002", "LW-ROOT-003"
RUNS_LOOKED_AT = 1000

Facts = dict[str, Any]


def examine(deployment: Deployment) -> Facts:
    """A report on the whole fleet as plain values. Reads only."""
    found = overview_of(deployment)
    fleet = found.fleet
    refused = sorted(found.refused.items())
    return {
        "tables": len(fleet.states),
        "roots": len(fleet.roots),
        "health": {str(status): count for status, count in found.counts.items()},
        "frozen": frozen_json(found),
        "refused": [_refusal(name, why) for name, why in refused],
        "refused_by_code": list(by_reason(found.health, Status.REFUSED)),
        "attention": list(by_reason(found.health, Status.ATTENTION)),
        "doubts": [
            {"table": doubt.table, "code": doubt.code, "message": f"it {doubt.why}", "hint": doubt.hint}
            for doubt in fleet.doubts
        ],
        "shared_roots": list(_shared(fleet)),
        "nested_roots": list(_nested(fleet)),
        "forks": [_refusal(name, why) for name, why in refused if why.code == FORK],
        "unknown_uuids": [_refusal(name, why) for name, why in refused if why.code == FOREIGN],
        "missing_live_files": [
            _refusal(name, table.refusal)
            for name, (_, table) in sorted(found.planned.items())
            if table.refusal and table.refusal.code == CODES[Brake.LIVE_MISSING]
        ],
        "broken_refs": list(_broken_refs(fleet)),
        "never_maintained": sorted({state.identifier for state in fleet.states} - found.maintained),
        "reclaimable": asdict(found.reclaimable),
        "pending": pending_json(found),
        "newest_plan": _plan(found.newest_plan) if found.newest_plan else None,
        "stale_leases": list(stale_leases(deployment)),
        "open_intents": list(open_intents(deployment)),
        "forgotten_runs": forgotten_runs(deployment),
    }


def by_reason(health: Mapping[str, Health], status: Status) -> Iterator[Facts]:
    """Why tables have a status, the most frequent reason first, each with its tables. A table may have several reasons.

    `message` and `hint` are the first table's; `alike` says whether every table has the same.
    """
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for name, found in sorted(health.items()):
        for reason in found.reasons if found.status is status else ():
            groups.setdefault(reason.code, []).append((name, reason.message, reason.hint))
    for code, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        (_, message, hint), names = members[0], [name for name, _, _ in members]
        alike = all(member[1:] == (message, hint) for member in members)
        yield {
            "code": code, "count": len(names), "message": message, "hint": hint, "alike": alike, "tables": names,
        }  # fmt: skip


def frozen_json(found: Overview) -> Facts | None:
    """The freeze in force: who, when and why."""
    if found.frozen is None:
        return None
    return {"by": found.frozen.who, "since": found.frozen.when.isoformat(), "reason": found.frozen.reason or ""}


def pending_json(found: Overview) -> Facts:
    """What expiry released and physical deletion has not yet taken."""
    waiting = found.pending()
    since = waiting.since.isoformat() if waiting.tally.files else None
    return {**asdict(waiting.tally), "tables": len(found.waiting), "oldest": since}


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
    """Directories of one table that lie within another table's.

    Roots are disjoint, so with both in the order of their names each directory is looked at once.
    """
    claims = sorted(fleet.claims, key=lambda claim: claim.prefix)
    at = 0
    for root in sorted(fleet.roots, key=lambda root: root.prefix):
        outer: set[str] = set()
        inside: dict[str, str] = {}
        while at < len(claims) and claims[at].prefix.startswith(root.prefix):
            claim = claims[at]
            if claim.prefix == root.prefix:
                outer.add(claim.identifier)
            else:
                inside[claim.identifier] = claim.prefix
            at += 1
        for name in sorted(inside.keys() - outer):
            yield {"prefix": root.prefix, "tables": sorted(outer), "inside": inside[name], "table": name}


def _broken_refs(fleet: Fleet) -> Iterable[Facts]:
    return (
        {"table": state.identifier, "ref": ref.name, "snapshot_id": ref.snapshot_id}
        for state in fleet.states
        for ref in broken_refs(state)
    )


def _plan(saved: SavedPlan) -> Facts:
    return {
        "plan_id": saved.plan_id,
        "path": saved.path,
        "created_at": saved.created_at.isoformat() if saved.created_at else None,
        "used_by": saved.used_by,
    }


def stale_leases(deployment: Deployment) -> Iterator[Facts]:
    """Leases whose holder has been silent for longer than they live. By wall clocks, so a hint and no proof."""
    now = deployment.clock.now()
    for record in deployment.leases.list():
        if record.state is LeaseState.HELD and now > record.renewed_at + timedelta(seconds=record.ttl_seconds):
            yield {"key": record.key, "holder": record.holder, "renewed_at": record.renewed_at.isoformat()}


def open_intents(deployment: Deployment) -> Iterator[Facts]:
    """Batches that were announced and never recorded: the next apply of their plan settles them."""
    for run in deployment.ledger.runs.list(RUNS_LOOKED_AT):
        if run.finished_at is None:
            for batch in deployment.ledger.journal.open_batches(run.run_id):
                yield {"run_id": run.run_id, "plan_id": run.plan_id, "batch": batch.batch_no, "files": len(batch.files)}
