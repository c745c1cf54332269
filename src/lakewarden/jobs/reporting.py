"""What the catalogs hold, as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lakewarden.jobs.fleet import load_fleet, load_states, pointers_of
from lakewarden.jobs.rooms import Rooms
from lakewarden.model.errors import NotFoundError
from lakewarden.model.table import TableState


def tables(rooms: Rooms) -> list[dict[str, Any]]:
    """Every table, whether it can be cleaned, and why not."""
    fleet = load_fleet(rooms, rooms.clock.now())
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


def find_table(rooms: Rooms, identifier: str) -> TableState:
    """One table by its full name. Raises NotFoundError."""
    found = pointers_of(rooms.catalogs).get(identifier)
    if found is None:
        raise NotFoundError(f"no configured catalog has a table {identifier}")
    return load_states([found], rooms.clock.now())[0]
