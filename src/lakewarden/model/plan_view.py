"""What a page tells of a plan, small enough to be kept beside it: a header of ten thousand tables takes a second to read. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from lakewarden.model.plan import Plan, Tally

MOST_TABLES = 50
MOST_REFUSALS = 20
MOST_HIDDEN = 2000

View = dict[str, Any]


def view_of(plan: Plan) -> View:
    """Sums, the tables that most would change of, and the reasons for which others were refused."""
    changing = str(plan.changing)
    planned = [table for table in plan.tables if table.refusal is None]
    refused = [table for table in plan.tables if table.refusal is not None]
    largest = sorted(
        (table for table in planned if any(table.changes.values())),
        key=lambda table: (
            -table.verdicts.get(changing, Tally()).bytes,
            -sum(table.changes.values()),
            table.identifier,
        ),
    )
    codes = Counter(table.refusal.code for table in refused if table.refusal)
    first = {table.refusal.code: table for table in reversed(refused) if table.refusal}
    return {
        "changing": changing,
        "totals": plan.totals(),
        "tables": len(plan.tables),
        "refused": len(refused),
        "braked": len(plan.braked),
        "brakes": {name: len(tables) for name, tables in plan.brakes.items()},
        "rows": sum(part.rows for part in plan.parts),
        "parts": [asdict(part) for part in plan.parts],
        # Tables whose rows mean nothing: refused, and not by a brake that a person could lift.
        "hidden": sorted({table.identifier for table in refused} - plan.braked)[:MOST_HIDDEN],
        "actor": {"operator": plan.actor.operator, "trigger": str(plan.actor.trigger), "ticket": plan.actor.ticket},
        "approval": any(table.policy.get("approval") and any(table.changes.values()) for table in planned),
        "notes": list(plan.notes),
        "modes": sorted({str(table.policy.get("delete_mode")) for table in planned if "delete_mode" in table.policy}),
        "largest": [
            {
                "identifier": table.identifier,
                "changes": dict(table.changes),
                "files": table.verdicts.get(changing, Tally()).files,
                "bytes": table.verdicts.get(changing, Tally()).bytes,
                "detail": _worth(table.detail),
            }
            for table in largest[:MOST_TABLES]
        ],
        "left_out": max(0, len(largest) - MOST_TABLES),
        "refusals": [
            {
                "code": code,
                "tables": count,
                "identifier": first[code].identifier,
                "message": first[code].refusal.message,  # type: ignore[union-attr]
                "hint": first[code].refusal.hint,  # type: ignore[union-attr]
            }
            for code, count in codes.most_common(MOST_REFUSALS)
        ],
        "detail": {name: plan.detail[name] for name in ("worth", "budget", "curve") if name in plan.detail},
    }


def _worth(detail: Any) -> dict[str, Any]:
    """Of what a job says of one table, what is small: numbers and words."""
    return {
        name: value
        for name, value in detail.items()
        if isinstance(value, str | int | float | bool) or (isinstance(value, dict) and len(str(value)) < 400)
    }
