"""A plan as a person reads it: refused tables first, then what is listed, kept and to be deleted, then what to type."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any

from lakewarden.cli.screen import Screen, number, size
from lakewarden.jobs.registry import JOBS
from lakewarden.model.plan import Plan, TablePlan, Tally, add_tallies
from lakewarden.model.policy import Job
from lakewarden.model.run import PlanDiff, PlanResult
from lakewarden.model.verdict import Verdict
from lakewarden.steps.job import Words

SMALL_FLEET = 5
SHOWN_REFUSALS = 20
SHOWN_NOTES = 5
SHOWN_TABLES = 50
SHOWN_REASONS = 8


_KEPT = {
    Verdict.PENDING: "waiting for deletion",
    Verdict.PROTECTED: "protected",
    Verdict.UNKNOWN_AGE: "unknown age",
    Verdict.TOO_NEW: "too new",
    Verdict.IN_FLIGHT: "active writer",
    Verdict.UNCONFIRMED: "seen too few times",
}


def show_plan(screen: Screen, result: PlanResult, config: str | None = None) -> None:
    """The whole plan, ending with the command that does exactly this."""
    show_summary(screen, result.plan)
    command = f"lakewarden apply {shlex.quote(result.path)} --yes" + (
        f" --config {shlex.quote(config)}" if config else ""
    )
    done, do = ("deleted", "delete") if JOBS[Job(result.plan.job)].deletes else ("changed", "change")
    if any(result.plan.totals()["changes"].values()):
        screen.line(f"Nothing has been {done}. To do exactly this: {command}", style="bold")
    else:
        screen.line(f"Nothing has been {done}, and this plan has nothing to {do}.", style="bold")


def show_summary(screen: Screen, plan: Plan) -> None:
    screen.line(f"PLAN {plan.job}   plan {plan.plan_id}   observed {_instant(plan.created_at)}", style="bold")
    words = _words(plan)
    kept = words.cutoff.format(_instant(plan.cutoff))
    screen.line(f"  {kept}the plan expires {_instant(plan.expires_at)}")
    for note in plan.notes[:SHOWN_NOTES]:
        screen.line(f"  note: {note}", style="yellow")
    if len(plan.notes) > SHOWN_NOTES:
        screen.line(f"  and {number(len(plan.notes) - SHOWN_NOTES)} more notes; --output json has them all")
    _show_refusals(screen, plan)
    planned = [table for table in plan.tables if table.refusal is None]
    if len(planned) <= SMALL_FLEET:
        for table in planned:
            screen.line()
            screen.line(f"{table.identifier}{_refs(table)}", style="bold")
            _show_detail(screen, plan, table)
            _show_tallies(screen, plan, table.verdicts, table.policy)
    else:
        _show_many(screen, plan, planned)
    if len(planned) != 1:
        screen.line()
        refused = len(plan.tables) - len(planned)
        screen.line(f"TOTAL  {number(len(planned))} tables planned, {number(refused)} refused", style="bold")
        totals = plan.totals()
        _show_changes(screen, plan.job, totals["changes"], words)
        if plan.job == Job.TIER_HANDOFF:
            screen.line(f"  {'size':<26}{size(sum(tally['bytes'] for tally in totals['kinds'].values())):>14}")
        _show_tallies(screen, plan, add_tallies(*(table.verdicts for table in planned)), {})
    screen.line()


def show_diff(screen: Screen, diff: PlanDiff) -> None:
    for uri in diff.added:
        screen.line(f"+ {uri}", style="green")
    for uri in diff.removed:
        screen.line(f"- {uri}", style="red")
    for table in diff.changed_tables:
        screen.line(f"~ {table}")
    screen.line(f"added={len(diff.added)} removed={len(diff.removed)} changed_tables={len(diff.changed_tables)}")


def question_of(plan: Plan) -> str:
    """What a person is asked before the plan is applied."""
    totals = plan.totals()
    if not JOBS[Job(plan.job)].deletes:
        changes = ", ".join(f"{number(count)} {kind}" for kind, count in totals["changes"].items())
        return f"{_words(plan).verb} {changes}?"
    tally = totals["verdicts"].get(plan.changing, {"files": 0, "bytes": 0})
    return f"Delete {number(tally['files'])} files ({size(tally['bytes'])})?"


def _show_refusals(screen: Screen, plan: Plan) -> None:
    refusals = [(table.identifier, table.refusal) for table in plan.tables if table.refusal]
    refused = {name for name, _ in refusals}
    # A root's refusal is told once more only where it stops a table that is not itself refused.
    refusals += [
        (root.prefix, root.refusal) for root in plan.roots if root.refusal and not refused.issuperset(root.tables)
    ]
    for name, refusal in refusals[:SHOWN_REFUSALS]:
        screen.line()
        screen.line(f"REFUSED {name}   {refusal.code}", style="bold yellow")
        screen.line(f"  {refusal.message}")
        screen.line(f"  next: {refusal.hint}")
    if len(refusals) > SHOWN_REFUSALS:
        screen.line(f"and {number(len(refusals) - SHOWN_REFUSALS)} more refused; --output json names them all")
    for brake, tables in plan.brakes.items():
        screen.line()
        screen.line(f"BRAKE {brake} holds {', '.join(tables)}", style="bold yellow")


def _show_detail(screen: Screen, plan: Plan, table: TablePlan) -> None:
    """What a job decided of things that are no files: how many go, and why the others stay."""
    _show_changes(screen, plan.job, table.changes, _words(plan))
    for line in table.detail.get("refs", {}).get("expire", ()):
        screen.line(f"  {'':<26}{line['kind']:>14}   {line['name']}: {line['reason']}")
    reasons = Counter(line["reason"] for line in table.detail.get("keep", ()))
    for reason, count in reasons.most_common(SHOWN_REASONS):
        screen.line(f"  {'kept':<26}{number(count):>14}   {reason}")
    if (before := table.detail.get("before")) and (after := table.detail.get("after")):
        opened = f"{before['opened']:.3g} → {after['opened']:.3g} manifests"
        screen.line(f"  {'one partition opens':<26}{opened:>14}   a gain of {table.detail['gain']:.0%}")
    if waiting := table.detail.get("waiting_for_cold_copy"):
        why = table.detail.get("cold_copy_blocked") or "no verified copy in the cold tier yet"
        screen.line(f"  {'waiting':<26}{number(waiting):>14}   {why}")


def _words(plan: Plan) -> Words:
    return JOBS[Job(plan.job)].words


def _show_changes(screen: Screen, job: str, changes: Mapping[str, int], words: Words) -> None:
    """How many of each kind; files have lines of their own where they are judged one by one."""
    for kind, count in changes.items():
        if kind != "files" or job == Job.TIER_HANDOFF:
            screen.line(f"  {f'{kind} {words.fate}':<26}{number(count):>14}", style="bold red" if count else None)


def _show_tallies(screen: Screen, plan: Plan, verdicts: Mapping[str, Tally], policy: Mapping[str, Any]) -> None:
    if not verdicts:
        return
    listed = sum(verdicts.values(), Tally())
    orphans = verdicts.get(plan.changing, Tally())
    words = _words(plan)
    _show_tally(screen, words.all_files, listed)
    _show_tally(screen, words.needed, verdicts.get(Verdict.LIVE, Tally()))
    for verdict, label in _KEPT.items():
        if verdict is not plan.changing and (tally := verdicts.get(verdict, Tally())).files:
            _show_tally(screen, f"kept: {label}", tally, _why(verdict, policy))
    share = _share(orphans, listed, policy) if words.all_files == "listed" else ""
    _show_tally(screen, words.label, orphans, share, "bold red" if orphans.files else None)
    _show_tally(screen, "after", Tally(listed.files - orphans.files, listed.bytes - orphans.bytes))


def _show_tally(screen: Screen, label: str, tally: Tally, note: str = "", style: str | None = None) -> None:
    screen.line(f"  {label:<26}{number(tally.files):>14} files {size(tally.bytes):>12}   {note}", style=style)


def _show_many(screen: Screen, plan: Plan, planned: list[TablePlan]) -> None:
    """One row a table that would change, the largest first; the others are one line."""
    if not any(table.verdicts for table in planned):
        return _show_changing(screen, planned)
    orphans = {table.identifier: table.verdicts.get(plan.changing, Tally()) for table in planned}
    changing = sorted(
        (table for table in planned if orphans[table.identifier].files),
        key=lambda table: (-orphans[table.identifier].bytes, table.identifier),
    )
    screen.line()
    if changing:
        rows = [_row(table, orphans[table.identifier]) for table in changing[:SHOWN_TABLES]]
        label = _words(plan).label.lower()
        screen.grid(("table", "listed", "live", "kept", label, "size"), rows, frozenset(range(1, 6)))
    if len(changing) > SHOWN_TABLES:
        screen.line(f"and {number(len(changing) - SHOWN_TABLES)} more tables with files to delete")
    if quiet := len(planned) - len(changing):
        screen.line(f"{number(quiet)} tables have nothing to delete")


def _show_changing(screen: Screen, planned: list[TablePlan]) -> None:
    """The same for a job that judges no file: what would change of each table."""
    kinds = list(dict.fromkeys(kind for table in planned for kind in table.changes))
    changing = [table for table in planned if any(table.changes.values())]
    changing.sort(key=lambda table: (-sum(table.changes.values()), table.identifier))
    screen.line()
    if changing:
        rows = [(t.identifier, *(number(t.changes.get(kind, 0)) for kind in kinds)) for t in changing[:SHOWN_TABLES]]
        screen.grid(("table", *kinds), rows, frozenset(range(1, len(kinds) + 1)))
    if len(changing) > SHOWN_TABLES:
        screen.line(f"and {number(len(changing) - SHOWN_TABLES)} more tables to change")
    if quiet := len(planned) - len(changing):
        screen.line(f"{number(quiet)} tables have nothing to change")


def _row(table: TablePlan, orphans: Tally) -> tuple[str, ...]:
    listed, live = sum(t.files for t in table.verdicts.values()), table.verdicts.get(Verdict.LIVE, Tally()).files
    counts = (listed, live, listed - live - orphans.files, orphans.files)
    return (table.identifier, *(number(count) for count in counts), size(orphans.bytes))


def _why(verdict: Verdict, policy: Mapping[str, Any]) -> str:
    if verdict is Verdict.TOO_NEW and (hours := policy.get("grace_period_hours")) is not None:
        return f"younger than {hours} h"
    if verdict is Verdict.UNCONFIRMED and (times := policy.get("confirmations")) is not None:
        return f"must be seen {times} times"
    return ""


def _share(orphans: Tally, listed: Tally, policy: Mapping[str, Any]) -> str:
    if not orphans.files:
        return ""
    limit = policy.get("max_orphan_share")
    allowed = f" (limit {limit:.0%})" if isinstance(limit, int | float) else ""
    return f"{orphans.files / listed.files:.2%} of files{allowed}"


def _refs(table: TablePlan) -> str:
    branches = sum(ref.kind == "branch" for ref in table.refs)
    tags = len(table.refs) - branches
    return f"   {branches} branches, {tags} tags" if table.refs else ""


def _instant(moment: Any) -> str:
    return str(moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
