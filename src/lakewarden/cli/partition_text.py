"""How much a plan that drops partitions takes of its tables, in words: before anybody says yes to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakewarden.cli.screen import Screen, number, size
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.steps.counts import Count

SHOWN_PARTITIONS = 10
SHOWN_EMPTY = 5
YOUNG = "not more than "

Line = Mapping[str, Any]


def scale_of(table: TablePlan) -> str | None:
    """`3 of 3 partitions, 60 rows, 12.4 MiB, 2026-01 to 2026-03: the table becomes EMPTY`; None if no partition would go."""
    lines = lines_of(table)
    if not lines:
        return None
    going, whole = table.detail["going"], table.detail["table"]
    told = f"{_counts(going, whole)}, {_range(lines)}"
    return f"{told}: the table becomes EMPTY" if table.detail["empties"] else f"{told}{_rest(going, whole)}"


def lines_of(table: TablePlan) -> Sequence[Line]:
    """The partitions that would go, the oldest first; none for a plan of another job."""
    lines: Sequence[Line] = table.detail["expire"] if "going" in table.detail else ()
    return lines


def show_scale(screen: Screen, table: TablePlan, limit: int = SHOWN_PARTITIONS) -> None:
    """How much would go of one table, and its partitions, the largest first."""
    if (told := scale_of(table)) is None:
        return
    screen.line(f"  {told}", style="bold red")
    lines = _largest_first(lines_of(table))
    for line in lines[:limit]:
        screen.line(f"    {line['label']}   {_held(line)}   {line['reason']}")
    if limit and len(lines) > limit:
        rest = number(len(lines) - limit)
        screen.line(f"    and {rest} more; lakewarden show PLAN_DIR --files lists them all")


def show_partitions(screen: Screen, plan: Plan, limit: int) -> None:
    """Every partition that would go, a line each: also those that a brake holds."""
    found = [(table, line) for table in plan.tables for line in _largest_first(lines_of(table))]
    for table, line in found[:limit]:
        fate = "drop" if table.refusal is None else "refused"
        screen.line(f"{fate:<12} {size(line['bytes']):>11}  {table.identifier} {line['label']}   {line['reason']}")
    if len(found) > limit:
        screen.line(f"and {number(len(found) - limit)} more partitions; --limit {len(found)} lists them all")


def why_kept(reason: str) -> str:
    """A reason without the moment in it: of partitions that are too young, each has a moment of its own."""
    return reason[reason.index(YOUNG) :] if YOUNG in reason else reason


def show_scales(screen: Screen, tables: Sequence[TablePlan], limit: int) -> None:
    """One row a table that would lose partitions: those that become empty first, then by the share of bytes."""
    losing = sorted(
        (table for table in tables if lines_of(table)),
        key=lambda table: (not table.detail["empties"], -_share(table), table.identifier),
    )
    rows = [_row(table) for table in losing[:limit]]
    if rows:
        screen.grid(("table", "partitions", "rows", "size", "share", ""), rows, frozenset(range(1, 5)))
    if len(losing) > limit:
        screen.line(f"and {number(len(losing) - limit)} more tables that would lose partitions")
    if quiet := len(tables) - len(losing):
        screen.line(f"{number(quiet)} {'tables have' if quiet > 1 else 'table has'} nothing to drop")


def drop_question(plan: Plan, lifted: Collection[str] = ()) -> str:
    """What a person is asked, with these brakes lifted: how much goes, of how much, and which tables would be empty."""
    allowed = plan.allowed(lifted)
    tables = [table for table in plan.tables if table.identifier in allowed and lines_of(table)]
    if not tables:
        return "Drop nothing?"
    if len(tables) == 1:
        return f"Drop {scale_of(tables[0])}. Go on?"
    going, whole = (sum((Counter(t.detail[kind]) for t in tables), Counter()) for kind in ("going", "table"))
    told = f"Drop {_counts(going, whole)}, in {number(len(tables))} tables"
    empty = [table.identifier for table in tables if table.detail["empties"]]
    if empty:
        more = f" and {number(len(empty) - SHOWN_EMPTY)} more" if len(empty) > SHOWN_EMPTY else ""
        told += f": {', '.join(empty[:SHOWN_EMPTY])}{more} {'become' if len(empty) > 1 else 'becomes'} EMPTY"
    return f"{told}. Go on?"


def _counts(going: Mapping[str, int], whole: Mapping[str, int]) -> str:
    partitions = f"{number(going['partitions'])} of {number(whole['partitions'])} partitions"
    return f"{partitions}, {Count(going['rows'], 'rows')}, {size(going['bytes'])}"


def _held(line: Line) -> str:
    return f"{Count(line['rows'], 'rows')}, {size(line['bytes'])}"


def _largest_first(lines: Sequence[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (-line["bytes"], line["label"]))


def _rest(going: Mapping[str, int], whole: Mapping[str, int]) -> str:
    rows, held = whole["rows"] - going["rows"], whole["bytes"] - going["bytes"]
    return f"; {Count(rows, 'rows')}, {size(held)} stay"


def _range(lines: Sequence[Line]) -> str:
    """From the oldest to the newest; the column's name only where there are several columns."""
    labels = [lines[0]["label"], lines[-1]["label"]]
    names = {label.partition("=")[0] for label in labels}
    if len(names) == 1 and all(label.count("=") == 1 for label in labels):
        labels = [label.partition("=")[2] for label in labels]
    return labels[0] if labels[0] == labels[1] else " to ".join(labels)


def _row(table: TablePlan) -> tuple[str, ...]:
    going, whole = table.detail["going"], table.detail["table"]
    partitions = f"{number(going['partitions'])} of {number(whole['partitions'])}"
    mark = "EMPTY" if table.detail["empties"] else ""
    return table.identifier, partitions, number(going["rows"]), size(going["bytes"]), f"{_share(table):.0%}", mark


def _share(table: TablePlan) -> float:
    """The largest of the shares of partitions, rows and bytes, as the brake takes it."""
    going, whole = table.detail["going"], table.detail["table"]
    return max(going[kind] / whole[kind] if whole[kind] > 0 else 0.0 for kind in ("partitions", "rows", "bytes"))
