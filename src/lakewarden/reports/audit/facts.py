"""A snapshot as an answer tells it: who wrote it, when, from what, and by whose hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakewarden.model import lineage as keys
from lakewarden.reports.audit.snapshots import Known

Facts = dict[str, Any]


def snapshot_facts(known: Known) -> Facts:
    """Everything that audits ask of a snapshot. `snapshot` names it as text: its id may be too large for a number in JSON."""
    row, said = known.row, known.summary
    found: Facts = {
        "snapshot": name_of(row),
        "table": row["identifier"],
        "table_uuid": row["uuid"],
        "format": row["format"],
        "snapshot_id": row["snapshot_id"],
        "committed_at": instant(row["committed_ms"]),
        "operation": row["operation"],
        "writer": _said(
            said, id=keys.WRITER, host=keys.HOST, commit_hash=keys.COMMIT_HASH, invocation_id=keys.INVOCATION
        ),
        "trigger": _said(said, type=keys.TRIGGER, operator=keys.OPERATOR, ticket=keys.TICKET),
        "rows": row["added_rows"],
        "bytes": row["added_bytes"],
        "refs": list(row["refs"] or ()),
        "state": "live" if known.live else "archived",
    }
    if job := said.get("lakewarden.job"):
        found["job"] = {"name": job, "run_id": said.get("lakewarden.run"), "plan_id": said.get("lakewarden.plan")}
    if known.file is not None:
        found["archive_file"] = known.file
    return found


def name_of(row: Mapping[str, Any]) -> str:
    return f"{row['identifier']}@{row['snapshot_id']}"


def instant(committed_ms: int) -> str:
    return datetime.fromtimestamp(committed_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _said(summary: Mapping[str, str], **wanted: str) -> dict[str, str | None]:
    return {name: summary.get(key) for name, key in wanted.items()}
