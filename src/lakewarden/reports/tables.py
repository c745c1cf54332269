"""What the catalogs hold, as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lakewarden.model.errors import NotFoundError
from lakewarden.model.table import TableState
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import load_fleet, load_states, pointers_of


def tables(deployment: Deployment) -> list[dict[str, Any]]:
    """Every table, whether it can be cleaned, and why not."""
    fleet = load_fleet(deployment, deployment.clock.now())
    roots = {name: root.refusal for root in fleet.roots for name in root.tables if root.refusal}
    rows = []
    for state in fleet.states:
        refusal = state.refusal or roots.get(state.identifier)
        rows.append(
            {
                "identifier": state.identifier,
                "format": state.format,
                "uuid": state.uuid,
                "format_version": state.format_version,
                "location": state.location,
                "snapshots": len(state.snapshot_ids),
                "refs": [ref.name for ref in state.refs],
                "status": "refused" if refusal else "ok",
                "refusal": asdict(refusal) if refusal else None,
            }
        )
    return rows


def find_table(deployment: Deployment, identifier: str) -> TableState:
    """One table by its full name. Raises NotFoundError."""
    found = pointers_of(deployment.formats.values()).get(identifier)
    if found is None:
        raise NotFoundError(f"no configured catalog has a table {identifier}")
    return load_states([found], deployment.clock.now())[0]
