"""Tables with more than their main branch, and what each branch and tag leads to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakewarden.ledger.fleet import FleetRow
from lakewarden.service.service import Service

BROKEN = "broken ref"
MAIN = "main"


def branch_rows(service: Service, search: str, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Some of the tables that have branches or tags of their own, those with the most first, and how many there are."""
    found = service.ledger.fleet.with_refs(search=search, offset=offset, limit=limit)
    return [_row(row) for row in found.rows], found.total


def broken_tables(service: Service) -> list[str]:
    """Tables with a branch or tag that leads to no snapshot."""
    return [row.identifier for row in service.ledger.fleet.page(code=BROKEN, sort="identifier", limit=20).rows]


def _row(row: FleetRow) -> dict[str, Any]:
    times = {one["id"]: one["at_ms"] for one in row.detail.get("snapshots", ()) if one.get("id") is not None}
    refs = [
        {
            "name": ref["name"],
            "kind": ref["kind"],
            "snapshot": ref["snapshot_id"],
            "at": _instant(times.get(ref["snapshot_id"])),
            "broken": bool(ref.get("broken")),
        }
        for ref in row.detail.get("refs", ())
        if ref["name"] != MAIN
    ]
    return {"identifier": row.identifier, "format": row.format, "refs": refs, "count": row.refs}


def _instant(at_ms: int | None) -> datetime | None:
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms is not None else None
