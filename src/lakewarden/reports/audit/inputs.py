"""What a snapshot was made from: the inputs that its summary names, each found or said to be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakewarden.model import lineage as keys
from lakewarden.model.history import Input, inputs_of
from lakewarden.reports.audit.facts import instant, name_of
from lakewarden.reports.audit.snapshots import Known, Snapshots

Facts = dict[str, Any]


def inputs_found(snapshots: Snapshots, known: Known) -> list[Facts]:
    """Each input with the snapshots that it can be: none where nobody has it any more, several where it names no table."""
    wanted = list(dict.fromkeys(inputs_of(known.summary.get(keys.INPUTS, ""))))
    there = snapshots.find(one.snapshot_id for one in wanted) if wanted else []
    return [_input(one, matching(snapshots, one, known, there)) for one in wanted]


def matching(snapshots: Snapshots, wanted: Input, consumer: Known, there: Sequence[Known]) -> list[Known]:
    """By the rule of the closure: the named table's; else the own table's, if it has the id; else every table's."""
    found = [one for one in there if one.row["snapshot_id"] == wanted.snapshot_id and one.key != consumer.key]
    if wanted.table:
        return [one for one in found if snapshots.is_of(one, wanted.table)]
    return [one for one in found if one.row["uuid"] == consumer.row["uuid"]] or found


def _input(wanted: Input, found: Sequence[Known]) -> Facts:
    asked = f"{wanted.table}@{wanted.snapshot_id}" if wanted.table else str(wanted.snapshot_id)
    if not found:
        return {"input": asked, "state": "unknown"}
    best = found[0]
    told: Facts = {
        "input": asked,
        "snapshot": name_of(best.row),
        "committed_at": instant(best.row["committed_ms"]),
        "writer_id": best.row["writer_id"],
        "state": "live" if best.live else "archived",
    }
    if len(found) > 1:
        told["others"] = [name_of(one.row) for one in found[1:]]
    return told
