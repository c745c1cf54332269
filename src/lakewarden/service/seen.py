"""What a look at one table keeps for its page: its newest snapshots, its refs, and what its properties say of policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.model.errors import LakewardenError
from lakewarden.model.table import TableState
from lakewarden.reports.overview import broken_refs
from lakewarden.reports.page.lineage import lineage_of
from lakewarden.steps.deployment import Deployment

# A page draws a dot for each. Of ten thousand tables they are kept in one database.
MOST_SNAPSHOTS = 100
MOST_REFS = 100
OURS = "lakewarden."
# Who was made from whom stands in every snapshot of every table: of a larger fleet, `lakewarden audit` reads it when asked.
MOST_TABLES_READ = 500


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


def edges_of(deployment: Deployment, states: Sequence[TableState]) -> Mapping[str, list[dict[str, Any]]]:
    """By table: which tables it was made from or went into, and how many commits say so. Nothing for a large fleet."""
    if len(states) > MOST_TABLES_READ:
        return {}
    try:
        found = lineage_of(deployment, states)
    except LakewardenError:
        return {}  # a picture less; whatever is wrong is told by the table's health
    by_table: dict[str, list[dict[str, Any]]] = {}
    for edge in found.edges if found else ():
        told = {"source": edge.source, "target": edge.target, "count": edge.count}
        for name in {edge.source, edge.target}:
            by_table.setdefault(name, []).append(told)
    return by_table
