"""A plan as a person reads it: refused tables first, then what is listed, kept and to be deleted, then what to type."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lakewarden.cli.branch_text import branch_lines, show_branches
from lakewarden.cli.compaction_text import show_many, show_worth, table_lines
from lakewarden.cli.lineage_text import show_violations
from lakewarden.cli.partition_text import drop_question, show_scale, show_scales, why_kept
from lakewarden.cli.screen import Screen, number, size
from lakewarden.cli.to_type import to_type
from lakewarden.jobs.registry import JOBS
from lakewarden.model.plan import Plan, TablePlan, Tally, add_tallies
from lakewarden.model.policy import Job
from lakewarden.model.run import PlanDiff, PlanResult
from lakewarden.model.standing import PlanState, Standing
from lakewarden.model.verdict import Verdict
from lakewarden.steps.counts import FILES, Count
from lakewarden.steps.job import JobSpec, Words
from lakewarden.steps.summary import in_order, moves_to_trash, planned_by

SMALL_FLEET = 5
SHOWN_REFUSALS = 20
SHOWN_NOTES = 5
SHOWN_BRAKED = 5
SHOWN_TABLES = 50
SHOWN_REASONS = 8


_KEPT = {
    Verdict.PENDING: "waiting for deletion",
    Verdict.PROTECTED: "protected",
    Verdict.UNKNOWN_AGE: "unknown age",
    Verdict.TOO_NEW: "too new",
    Verdict.IN_FLIGHT: "active writer",
    Verdict.UNCONFIRMED: "unconfirmed",
}


# States of a plan that no run has begun with, and that is not over.
_LIFTABLE = (PlanState.READY, PlanState.REFUSED, PlanState.EMPTY, PlanState.FROZEN)


def show_plan(
    screen: Screen, result: PlanResult, standing: Standing, config: str | None = None, *, new: bool = False
) -> None:
    """The whole plan, ending with what became of it, or with the command that does exactly this. `new`: made just now."""
    show_summary(screen, result.plan, result.path if standing.state in _LIFTABLE else None)
    for line in what_next(result, standing, config, new=new):
        screen.line(line, style="bold")


def what_next(result: PlanResult, standing: Standing, config: str | None = None, *, new: bool = False) -> list[str]:
    """What became of a plan and what can be done with it now. The command to apply it stands only where apply takes it."""
    plan, command = result.plan, to_type(f"apply {shlex.quote(result.path)} --yes", config)
    spec, state = JOBS[Job(plan.job)], standing.state
    # Another plan may have had its run meanwhile, and its files may be the same.
    untouched = f"Nothing has been {'deleted' if spec.deletes else 'changed'}{'' if new else ' by this plan'}"
    it = "this plan" if new else "it"
    when = f"{standing.at:%Y-%m-%d %H:%M} UTC" if standing.at else ""
    its_run = to_type(f"runs {standing.run_id}", config)
    braked = [*_braked_words(plan)]
    match state:
        case PlanState.USED:
            did = f": {standing.status}, {standing.summary or 'see its record'}"
            return [f"This plan was used by run {standing.run_id}, which ended {when}{did}.",
                    f"A plan is used once. What the run did: {its_run}"]  # fmt: skip
        case PlanState.OPEN if standing.status == "running":
            return [f"Run {standing.run_id} is at work on this plan since {when}: {its_run}"]
        case PlanState.OPEN if standing.why:
            return [f"Run {standing.run_id} began with this plan {when} and was stopped, and {standing.why}.",
                    f"Nothing more of it is done. To settle what was under way and close the run: {command}"]  # fmt: skip
        case PlanState.OPEN:
            return [f"Run {standing.run_id} began with this plan {when} and was stopped. To go on with it: {command}"]
        case PlanState.EXPIRED:
            return [f"{untouched}, and it expired {when}. To look again: {to_type(f'plan {plan.job}', config)}"]
        case PlanState.FOREIGN:
            return ["This plan was not made by this deployment, and cannot be applied here."]
        case PlanState.UNSEEN:
            return [f"{untouched}. This plan cannot be applied: {standing.why}."]
        case PlanState.UNKNOWN:
            return [f"Whether this plan was used is not known: the state cannot be read ({standing.why})."]
        case PlanState.REFUSED:
            return [f"{untouched}: every table of {it} is refused or braked.", *braked]
        case PlanState.EMPTY:
            return [f"{untouched}, and {it} has nothing to {'delete' if spec.deletes else 'change'}.", *braked]
        case PlanState.FROZEN:
            return [f"{untouched}. This deployment is frozen since {when} ({standing.why}). Before this plan is applied: "
                    f"{to_type('unfreeze', config)}", *braked]  # fmt: skip
    return [f"{untouched}. To do exactly this: {command}", *braked]


def _braked_words(plan: Plan) -> Iterator[str]:
    """That a brake stopped tables which would change otherwise: never the same as nothing to do."""
    if braked := plan.braked:
        names = ", ".join(plan.brakes)
        held = "1 table is" if len(braked) == 1 else f"{number(len(braked))} tables are"
        # A plan is used once: who lifts one brake and then the other finds it used up.
        at_once = ", all of them in the same apply" if len(plan.brakes) > 1 else ""
        yield f"{held} held by brakes ({names}). Look at them; a brake is lifted by apply --override-brake NAME{at_once}."


def show_summary(screen: Screen, plan: Plan, path: str | None = None) -> None:
    """What a plan found and would change. `path`: where it lies, if a brake can be lifted for it."""
    screen.line(f"PLAN {plan.job}   plan {plan.plan_id}", style="bold")
    words = _words(plan)
    screen.line(f"  observed {_instant(plan.created_at)}; the plan expires {_instant(plan.expires_at)}")
    screen.line(f"  {words.cutoff.format(_instant(plan.cutoff))}")
    for note in plan.notes[:SHOWN_NOTES]:
        screen.line(f"  note: {note}", style="yellow")
    if len(plan.notes) > SHOWN_NOTES:
        screen.line(f"  and {number(len(plan.notes) - SHOWN_NOTES)} more notes; --output json has them all")
    _show_refusals(screen, plan, path)
    planned = [table for table in plan.tables if table.refusal is None]
    if plan.job == Job.STALE_BRANCHES:
        show_branches(screen, planned, SHOWN_TABLES)
    if len(planned) <= SMALL_FLEET:
        for table in planned:
            screen.line()
            screen.line(f"{table.identifier}{_refs(table)}", style="bold")
            _show_detail(screen, plan, table)
            _show_tallies(screen, plan, table.verdicts, table.policy)
    else:
        _show_many(screen, plan, planned)
    if len(plan.tables) != 1:
        screen.line()
        screen.line(f"TOTAL  {', '.join(_standings(plan, planned))}", style="bold")
    if len(planned) > 1:
        totals = plan.totals()
        _show_changes(screen, plan.job, totals["changes"], words)
        if plan.job == Job.TIER_HANDOFF:
            copied = sum(tally["bytes"] for tally in totals["kinds"].values())
            if copied:
                _show_fact(screen, "size", size(copied))
        _show_tallies(screen, plan, add_tallies(*(table.verdicts for table in planned)), {})
    show_worth(screen, plan)
    screen.line()


def _standings(plan: Plan, planned: Sequence[TablePlan]) -> Iterator[str]:
    """How many tables would change, have nothing to do, are held by a brake, are refused: each told apart."""
    changing = sum(any(table.changes.values()) for table in planned)
    braked = len(plan.braked)
    refused = len(plan.tables) - len(planned) - braked
    waiting = _words(plan).waiting
    told = {waiting: changing, "with nothing to do": len(planned) - changing, "braked": braked, "refused": refused}
    yield f"{number(len(plan.tables))} tables"
    yield from (f"{number(count)} {word}" for word, count in told.items() if count)


def show_diff(screen: Screen, diff: PlanDiff) -> None:
    for uri in diff.added:
        screen.line(f"+ {uri}", style="green")
    for uri in diff.removed:
        screen.line(f"- {uri}", style="red")
    for table in diff.changed_tables:
        screen.line(f"~ {table}")
    screen.line(f"added={len(diff.added)} removed={len(diff.removed)} changed_tables={len(diff.changed_tables)}")


def question_of(plan: Plan, lifted: Collection[str] = ()) -> str:
    """What a person is asked before the plan is applied, with these brakes lifted."""
    spec, allowed = JOBS[Job(plan.job)], plan.allowed(lifted)
    if plan.job == Job.PARTITION_EXPIRY:
        return drop_question(plan, lifted)
    if not spec.deletes:
        return f"{spec.words.verb} {', '.join(map(str, planned_by(spec, plan.totals()['changes']))) or 'nothing'}?"
    tallies = add_tallies(*(table.verdicts for table in plan.tables if table.identifier in allowed))
    tally = tallies.get(plan.changing, Tally())
    files = Count(tally.files, FILES)
    if moves_to_trash(plan, lifted):
        return f"Move {files} to the trash ({size(tally.bytes)})?"
    return f"Delete {files} ({size(tally.bytes)})?"


def _show_refusals(screen: Screen, plan: Plan, path: str | None) -> None:
    refusals = [(table.identifier, table.refusal) for table in plan.tables if table.refusal]
    refused = {table.identifier: table for table in plan.tables if table.refusal}
    # A root's refusal is told once more only where it stops a table that is not itself refused.
    refusals += [
        (root.prefix, root.refusal) for root in plan.roots if root.refusal and not refused.keys() >= set(root.tables)
    ]
    for name, refusal in refusals[:SHOWN_REFUSALS]:
        screen.line()
        screen.line(f"REFUSED {name}   {refusal.code}", style="bold yellow")
        screen.line(f"  {refusal.message}")
        if name in refused:
            show_scale(screen, refused[name], limit=SHOWN_BRAKED if len(refusals) <= SMALL_FLEET else 0)
        screen.line(f"  next: {refusal.hint.replace('PLAN_DIR', shlex.quote(path)) if path else refusal.hint}")
    if len(refusals) > SHOWN_REFUSALS:
        screen.line(f"and {number(len(refusals) - SHOWN_REFUSALS)} more refused; --output json names them all")
    for brake, tables in plan.brakes.items():
        screen.line()
        more = f" and {number(len(tables) - SHOWN_BRAKED)} more" if len(tables) > SHOWN_BRAKED else ""
        screen.line(f"BRAKE {brake} holds {', '.join(tables[:SHOWN_BRAKED])}{more}", style="bold yellow")


def _show_detail(screen: Screen, plan: Plan, table: TablePlan) -> None:
    """What a job decided of things that are no files: how many go, and why the others stay."""
    _show_changes(screen, plan.job, table.changes, _words(plan))
    show_scale(screen, table)
    show_violations(screen, plan.job, table)
    for label, value, words in table_lines(table):
        _show_fact(screen, label, value, words)
    for told in branch_lines(table):
        screen.line(f"  {told}")
    for line in table.detail.get("refs", {}).get("expire", ()):
        _show_fact(screen, "", line["kind"], f"  {line['name']}: {line['reason']}")
    reasons = Counter(why_kept(line["reason"]) for line in table.detail.get("keep", ()))
    for reason, count in reasons.most_common(SHOWN_REASONS):
        _show_fact(screen, "kept", number(count), f"  {reason}")
    if (before := table.detail.get("before")) and (after := table.detail.get("after")) and table.detail["gain"] > 0:
        opened = f"{before['opened']:.3g} → {after['opened']:.3g}"
        _show_fact(screen, "one partition opens", opened, f"manifests   a gain of {table.detail['gain']:.0%}")
    if waiting := table.detail.get("waiting_for_cold_copy"):
        why = table.detail.get("cold_copy_blocked") or "no verified copy in the cold tier yet"
        _show_fact(screen, "waiting", number(waiting), f"  {why}")


def _words(plan: Plan) -> Words:
    return JOBS[Job(plan.job)].words


def _label(plan: Plan) -> str:
    """What becomes of the files that this plan takes away."""
    return "TO MOVE TO THE TRASH" if JOBS[Job(plan.job)].deletes and moves_to_trash(plan) else _words(plan).label


def _show_changes(screen: Screen, job: str, changes: Mapping[str, int], words: Words) -> None:
    """How many of each kind; files have lines of their own where they are judged one by one."""
    spec = JOBS[Job(job)]
    told = {kind: count for kind, count in in_order(spec, changes).items() if kind != "files" or not spec.deletes}
    if told and not any(told.values()):
        screen.line(f"  nothing {words.fate}")
    for kind, count in told.items():
        if count:
            _show_fact(screen, f"{kind} {words.fate_of(kind)}", number(count), style="bold red")


def _show_tallies(screen: Screen, plan: Plan, verdicts: Mapping[str, Tally], policy: Mapping[str, Any]) -> None:
    if not verdicts:
        return
    listed = sum(verdicts.values(), Tally())
    orphans = verdicts.get(plan.changing, Tally())
    words = _words(plan)
    label = _label(plan)
    for name, tally in {words.all_files: listed, words.needed: verdicts.get(Verdict.LIVE, Tally())}.items():
        if tally.files:
            _show_tally(screen, name, tally)
    for verdict, why in _KEPT.items():
        if verdict is not plan.changing and (tally := verdicts.get(verdict, Tally())).files:
            _show_tally(screen, f"kept: {why}", tally, _why(verdict, policy))
    if not orphans.files:
        # A job that changes other things than files has said already that there is nothing to do.
        if JOBS[Job(plan.job)].deletes:
            screen.line(f"  nothing {label.lower()}")
        return
    share = _share(orphans, listed, policy) if words.all_files == "listed" else ""
    _show_tally(screen, label, orphans, share, "bold red")
    if listed.files > orphans.files:
        _show_tally(screen, "after", Tally(listed.files - orphans.files, listed.bytes - orphans.bytes))


def _show_tally(screen: Screen, label: str, tally: Tally, note: str = "", style: str | None = None) -> None:
    files = "file" if tally.files == 1 else "files"
    _show_fact(screen, label, number(tally.files), f"{files:<5} {size(tally.bytes):>10}   {note}", style)


def _show_fact(screen: Screen, label: str, value: str, note: str = "", style: str | None = None) -> None:
    """A line of a table's numbers: at 80 columns a share with its limit fits behind them."""
    screen.line(f"  {label:<22}{value:>9} {note}", style=style)


def _show_many(screen: Screen, plan: Plan, planned: list[TablePlan]) -> None:
    """One row a table that would change, the largest first; the others are one line."""
    if plan.job == Job.PARTITION_EXPIRY:
        screen.line()
        return show_scales(screen, planned, SHOWN_TABLES)
    if plan.job == Job.COMPACTION:
        return show_many(screen, planned, SHOWN_TABLES)
    if not any(table.verdicts for table in planned):
        return _show_changing(screen, JOBS[Job(plan.job)], planned)
    orphans = {table.identifier: table.verdicts.get(plan.changing, Tally()) for table in planned}
    # A table may change without a file of it: a tag goes whose snapshot stays.
    changing = sorted(
        (table for table in planned if any(table.changes.values())),
        key=lambda table: (-orphans[table.identifier].bytes, table.identifier),
    )
    spec, label = JOBS[Job(plan.job)], _label(plan).lower()
    screen.line()
    if changing:
        rows = [_row(table, orphans[table.identifier]) for table in changing[:SHOWN_TABLES]]
        head = ("table", spec.words.all_files, spec.words.needed, "kept", label, "size")
        screen.grid(head, rows, frozenset(range(1, 6)), drop=(1, 2, 3))
    if len(changing) > SHOWN_TABLES:
        screen.line(f"and {number(len(changing) - SHOWN_TABLES)} more tables to change")
    if quiet := len(planned) - len(changing):
        screen.line(f"{_tables(quiet)} nothing {label if spec.deletes else spec.words.fate}")


def _show_changing(screen: Screen, spec: JobSpec, planned: list[TablePlan]) -> None:
    """The same for a job that judges no file: what would change of each table."""
    kinds = list(in_order(spec, {kind: 0 for table in planned for kind in table.changes}))
    changing = [table for table in planned if any(table.changes.values())]
    changing.sort(key=lambda table: (-sum(table.changes.values()), table.identifier))
    screen.line()
    if changing:
        rows = [(t.identifier, *(number(t.changes.get(kind, 0)) for kind in kinds)) for t in changing[:SHOWN_TABLES]]
        screen.grid(("table", *kinds), rows, frozenset(range(1, len(kinds) + 1)))
    if len(changing) > SHOWN_TABLES:
        screen.line(f"and {number(len(changing) - SHOWN_TABLES)} more tables {spec.words.waiting}")
    if quiet := len(planned) - len(changing):
        screen.line(f"{_tables(quiet)} nothing to change")


def _tables(count: int) -> str:
    return "1 table has" if count == 1 else f"{number(count)} tables have"


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
    return f"{orphans.files / listed.files:.1%} of files{allowed}"


def _refs(table: TablePlan) -> str:
    """How many branches and tags a table has, where it has more than the one branch of every table."""
    branches = sum(ref.kind == "branch" for ref in table.refs)
    if len(table.refs) < 2:
        return ""
    counts = (Count(branches, "branches"), Count(len(table.refs) - branches, "tags"))
    return f"   {', '.join(str(count) for count in counts if count.number)}"


def _instant(moment: Any) -> str:
    return str(moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
