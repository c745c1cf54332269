"""Tables with more than their main branch, what each branch and tag leads to, and what is worth which of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakewarden.ledger.fleet import FleetRow
from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.policy import Job
from lakewarden.service.service import Service

BROKEN = "broken ref"
MAIN = "main"
# A state of a branch, and the look of its badge.
LOOKS = {"healthy": "done", "broken": "refused", "detached": "open", "diverged": "open", "inactive": "open"}


def newest_judgement(service: Service) -> SavedPlan | None:
    """The newest plan of stale branches: it looked at every branch."""
    plans, _ = service.ledger.activity.plans(job=Job.STALE_BRANCHES, limit=1)
    return plans[0].saved if plans else None


def branch_rows(
    service: Service, judged: SavedPlan | None, search: str, offset: int, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """Some of the tables that have branches or tags of their own, those with the most first, and how many there are."""
    found = service.ledger.fleet.with_refs(search=search, offset=offset, limit=limit)
    names = [row.identifier for row in found.rows]
    parts = service.ledger.activity.tables_of_plan(judged.plan_id, names) if judged else {}
    return [_row(row, parts.get(row.identifier)) for row in found.rows], found.total


def broken_tables(service: Service) -> list[str]:
    """Tables with a branch or tag that leads to no snapshot."""
    return [row.identifier for row in service.ledger.fleet.page(code=BROKEN, sort="identifier", limit=20).rows]


def _row(row: FleetRow, judged: Mapping[str, Any] | None) -> dict[str, Any]:
    times = {one["id"]: one["at_ms"] for one in row.detail.get("snapshots", ()) if one.get("id") is not None}
    refs = [
        {
            "name": ref["name"],
            "kind": ref["kind"],
            "snapshot": ref["snapshot_id"],
            "at": _instant(times.get(ref["snapshot_id"])),
            "broken": bool(ref.get("broken")),
            **_judgement(ref, judged),
        }
        for ref in row.detail.get("refs", ())
        if ref["name"] != MAIN
    ]
    return {"identifier": row.identifier, "format": row.format, "refs": refs, "count": row.refs}


def _judgement(ref: Mapping[str, Any], judged: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the newest plan of stale branches says of one branch; of tags, of what it refused or never saw: nothing."""
    nothing = {"state": None, "look": None, "reason": "", "goes": False}
    detail = (judged or {}).get("detail") or {}
    if ref["name"] not in detail.get("seen", {}):
        return nothing
    line = next((one for one in detail.get("branches", ()) if one["name"] == ref["name"]), None)
    if line is None:
        return {**nothing, "state": "healthy", "look": LOOKS["healthy"]}
    reason = line.get("kept") or line["reason"]
    return {"state": line["state"], "look": LOOKS.get(line["state"], "open"), "reason": reason, "goes": line["goes"]}


def _instant(at_ms: int | None) -> datetime | None:
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms is not None else None
