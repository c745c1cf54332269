"""A plan that removes branches, as a person reads it: what each branch is over all tables, then what goes, then what stays and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from lakewarden.cli.screen import Screen, number
from lakewarden.model.branches import BranchState
from lakewarden.model.plan import TablePlan
from lakewarden.model.table import catalog_of, parts_of

SHOWN_LINES = 10
TO_REMOVE = "to remove"


def show_branches(screen: Screen, planned: Sequence[TablePlan], limit: int) -> None:
    """One row a branch of a catalog: how many tables it has in each state, and from how many it goes."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for table in planned:
        catalog = catalog_of(table.identifier)
        for branch, state, goes in _branches(table):
            counts = found.setdefault((catalog, branch), Counter())
            counts[state] += 1
            counts[TO_REMOVE] += goes
    screen.line()
    if not found:
        screen.line("no table has a branch beside main" if planned else "no table was looked at")
        return
    order = sorted(found.items(), key=lambda item: (-item[1][TO_REMOVE], item[0]))
    kinds = [kind for kind in (*BranchState, TO_REMOVE) if any(counts[kind] for counts in found.values())]
    rows = [(f"{catalog} {branch}", *(number(counts[kind]) for kind in kinds)) for (catalog, branch), counts in order]
    screen.grid(("branch", *map(str, kinds)), rows[:limit], frozenset(range(1, len(kinds) + 1)))
    if len(rows) > limit:
        screen.line(f"and {number(len(rows) - limit)} more branches; --output json has them all")


def branch_lines(table: TablePlan) -> Iterator[str]:
    """The branches of one table that are not healthy: what goes first, then what stays and why."""
    lines = sorted(table.detail.get("branches", ()), key=lambda line: (not line["goes"], line["name"]))
    for line in lines[:SHOWN_LINES]:
        yield f"{'goes' if line['goes'] else 'stays':<6} {line['name']}: {line['state']}, {line['reason']}{_kept(line)}"
    if len(lines) > SHOWN_LINES:
        yield f"and {number(len(lines) - SHOWN_LINES)} more; --output json has them all"
    healthy = table.detail.get("states", {}).get(BranchState.HEALTHY, 0)
    if healthy:
        yield f"stays  {number(healthy)} healthy"


def _kept(line: dict[str, Any]) -> str:
    return f"; kept: {line['kept']}" if "kept" in line else ""


def _branches(table: TablePlan) -> Iterator[tuple[str, str, bool]]:
    told = {line["name"]: line for line in table.detail.get("branches", ())}
    own = parts_of(table.identifier)[-1].removeprefix("@") if table.detail.get("of_catalog") else None
    for name in table.detail.get("seen", ()):
        line = told.get(name)
        yield own or name, line["state"] if line else str(BranchState.HEALTHY), bool(line and line["goes"])
