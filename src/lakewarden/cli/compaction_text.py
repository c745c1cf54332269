"""What a compaction plan is worth, in words and in a small picture: what a scan saves, what it costs, where the budget cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakewarden.cli.forecast_text import FULL, HALVES, bar
from lakewarden.cli.screen import Screen, number, size
from lakewarden.cli.step import duration
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.worth import Worth
from lakewarden.steps.counts import Count

BAR = 30
LINES = 5

Values = Mapping[str, Any]


def table_lines(table: TablePlan) -> Iterator[tuple[str, str, str]]:
    """What is said of one table beside how many groups and files are rewritten: label, number, words."""
    found = table.detail.get("compaction")
    if found is None:
        return
    if found["groups"]:
        read = f"{size(found['bytes'])} read, about {size(found['written_bytes'])} written"
        yield "they become", number(found["files_after"]), f"{_one('files', found['files_after']):<5} {read}"
        yield "a full scan saves", number(found["requests"]), f"{_one('requests', found['requests'])}{_deletes(found)}"
        if found["seconds"] is not None:
            yield "work", duration(found["seconds"]), ""
    if (left := table.detail["beyond_budget"])["groups"]:
        yield "beyond the budget", number(left["groups"]), _groups(left)
    if (left := table.detail["settling"])["groups"]:
        within = f"written to within {table.policy['settle_minutes']} min"
        yield "settling", number(left["groups"]), f"{_groups(left)}, {within}"
    if table.detail["branch"] != "main":
        yield "branch", "", table.detail["branch"]


def show_many(screen: Screen, planned: Sequence[TablePlan], shown: int) -> None:
    """One row a table with anything to rewrite, the best first."""
    told = [table for table in planned if "compaction" in table.detail and any(_left(table, name) for name in FATES)]
    told.sort(key=lambda table: (-table.detail["compaction"]["per_cost"], table.identifier))
    screen.line()
    if told:
        heads = ("table", "groups", "files", "become", "read", "requests saved", "beyond", "settling")
        screen.grid(heads, [_row(table) for table in told[:shown]], frozenset(range(1, 8)), drop=(7, 6, 3))
    if len(told) > shown:
        screen.line(f"and {number(len(told) - shown)} more tables to change")
    if quiet := len(planned) - len(told):
        screen.line(f"{number(quiet)} {'table has' if quiet == 1 else 'tables have'} nothing to rewrite")


FATES = ("compaction", "beyond_budget", "settling")


def show_worth(screen: Screen, plan: Plan) -> None:
    """The whole plan: what it saves and costs, and the curve with the place where the budget cuts it."""
    if not (curve := [Worth.of(point) for point in plan.detail.get("curve", ())]):
        return
    tables = [table.detail for table in plan.tables if table.refusal is None and "compaction" in table.detail]
    now = sum((Worth.of(detail["compaction"]) for detail in tables), Worth())
    left = sum((Worth.of(detail["beyond_budget"]) for detail in tables), Worth())
    saved = f"{Count(now.requests, 'requests')} fewer for a full scan{_deletes(now.as_values())}"
    screen.line()
    screen.line(f"WORTH  {saved}", style="bold")
    cost = f"{size(now.bytes)} read and about {size(now.written_bytes)} written"
    screen.line(f"  cost: {cost}, {_time(plan.detail, now)}")
    if len(curve) > 1 and max(point.requests for point in curve) > 0:
        _show_curve(screen, curve, now if left.groups else None)
    if left.groups:
        rest = f"{Count(left.groups, 'groups')} of {Count(left.files, 'files')}, {size(left.bytes)}"
        screen.line(f"  beyond the budget ({plan.detail['budget']['why']}): {rest}; the next plan has them")


def _show_curve(screen: Screen, curve: Sequence[Worth], cut: Worth | None) -> None:
    """A bar for each fifth of the bytes, the best groups first."""
    blocks = screen.can_print(FULL + HALVES)
    whole, most = curve[-1].bytes or 1, max(point.requests for point in curve)
    shown = [next(p for p in curve if p.bytes >= whole * step / LINES) for step in range(1, LINES + 1)]
    screen.line("  best groups first:")
    for point in dict.fromkeys(shown):
        if cut is not None and point.bytes > cut.bytes:
            screen.line(f"    ---- the budget ends here, at {cut.bytes / whole:.0%} of the bytes ----")
            cut = None
        share = point.requests / most
        told = f"{point.bytes / whole:>4.0%} of the bytes"
        screen.line(f"    {told}  {bar(share, BAR, blocks=blocks)} {share:>4.0%} of the requests")


def _time(detail: Values, now: Worth) -> str:
    rate, share = detail["rate"], detail["bandwidth_share"]
    if rate is None:
        return "time not measured yet"
    seconds = now.bytes / rate["bytes_per_second"]
    how = "measured" if rate["measured"] else "set"
    speed = f"{size(round(rate['bytes_per_second']))}/s as {how}"
    return f"{duration(seconds)} of work at {speed}, within {duration(seconds / share)} at bandwidth_share = {share:g}"


def _deletes(found: Values) -> str:
    return f", and {size(found['delete_bytes'])} of deletes" if found["delete_bytes"] else ""


def _groups(found: Values) -> str:
    return f"{_one('groups', found['groups'])} of {Count(found['files'], 'files')}"


def _one(kind: str, count: int) -> str:
    return kind.removesuffix("s") if count == 1 else kind


def _left(table: TablePlan, fate: str) -> int:
    return int(table.detail[fate]["groups"])


def _row(table: TablePlan) -> tuple[str, ...]:
    found = table.detail["compaction"]
    counts = (number(found[name]) for name in ("groups", "files", "files_after"))
    beyond, settling = (number(_left(table, name)) for name in FATES[1:])
    return (table.identifier, *counts, size(found["bytes"]), number(found["requests"]), beyond, settling)
