"""What a look at one table keeps for its page: its newest snapshots, its refs, and what its properties say of policy."""

from __future__ import annotations

from typing import Any

from lakewarden.model.table import TableState
from lakewarden.reports.overview import broken_refs

# A page draws a dot for each. Of ten thousand tables they are kept in one database.
MOST_SNAPSHOTS = 100
MOST_REFS = 100
OURS = "lakewarden."


def seen_of(state: TableState) -> dict[str, Any]:
    """Snapshots, those to which refs lead among them; refs, each with whether its snapshot is gone; properties of ours."""
    broken = {ref.name for ref in broken_refs(state)}
    heads = {ref.snapshot_id for ref in state.refs}
    commits = sorted(state.commits, key=lambda one: -one.at_ms)
    kept = [one for place, one in enumerate(commits) if place < MOST_SNAPSHOTS or one.snapshot_id in heads]
    return {
        "snapshots": [
            {"id": one.snapshot_id, "at_ms": one.at_ms, "added": one.added_bytes} for one in kept[: 2 * MOST_SNAPSHOTS]
        ],
        "refs": [
            {"name": ref.name, "kind": ref.kind, "snapshot_id": ref.snapshot_id, "broken": ref.name in broken}
            for ref in state.refs[:MOST_REFS]
        ],
        "properties": {name: value for name, value in state.properties.items() if name.startswith(OURS)},
    }
