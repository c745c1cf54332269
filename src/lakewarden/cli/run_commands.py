"""`apply`, `run`, `runs`, `restore`: what changes the lake or the record, and what was changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lakewarden.cli import worker
from lakewarden.cli.asking import ask, check_somebody_is_there
from lakewarden.cli.night_text import show_night
from lakewarden.cli.options import Brakes, Exclude, JobNames, PlanDir, Record, Select, Shared, Strict, Wait
from lakewarden.cli.plan_text import question_of, show_summary
from lakewarden.cli.progress import reporting
from lakewarden.cli.report_afterwards import check_report, write_afterwards
from lakewarden.cli.run_detail_text import show_detail
from lakewarden.cli.run_text import show_drill, show_run, show_runs
from lakewarden.cli.screen import Screen
from lakewarden.cli.signals import PLANS_ANEW, stopping_between_batches
from lakewarden.model.actor import Actor
from lakewarden.model.errors import (
    Exit,
    FrozenError,
    PlanError,
    PlanExpiredError,
    PlanOutdatedError,
    PlanUsedError,
    UsageError,
)
from lakewarden.model.night import NightResult
from lakewarden.model.plan import Plan
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.model.standing import PlanState, Standing
from lakewarden.model.stop import Stopped
from lakewarden.night.names import ALL, named_jobs

if TYPE_CHECKING:
    from lakewarden.warden import Warden


def apply(
    shared: Shared,
    record: Record,
    plan_dir: PlanDir,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    override_brake: Brakes = None,
    wait: Wait = None,
) -> int:
    """Do what a plan says, and nothing else."""
    check_somebody_is_there(yes, "apply changes tables")
    warden = worker.open_worker(shared)
    lifted = tuple(override_brake or ())
    # Whoever is asked agrees to the plan that was shown, and not to one that is put into its place meanwhile.
    chosen: str | PlanResult = plan_dir if yes else _agreed_to(warden, plan_dir, lifted)
    actor = record.actor(warden)
    with stopping_between_batches(), reporting(shared) as progress:
        result = warden.apply(chosen, actor=actor, override_brakes=lifted, progress=progress, wait=wait)
    return _tell(result, shared)


def _agreed_to(warden: Warden, plan_dir: str, lifted: tuple[str, ...]) -> PlanResult:
    """The plan that a person has seen and said yes to. Where it can change nothing, nobody is asked."""
    chosen = warden.load_plan(plan_dir)
    plan, standing = chosen.plan, warden.standing(chosen.plan)
    check_usable(plan, standing)
    # A run that was begun goes on with the brakes that were lifted for it.
    in_effect = (*lifted, *standing.lifted)
    allowed = plan.allowed(in_effect)
    if any(any(table.changes.values()) for table in plan.tables if table.identifier in allowed):
        ask(partial(show_summary, plan=plan), question_of(plan, in_effect))
    return chosen


def check_usable(plan: Plan, standing: Standing) -> None:
    """Raise as apply would for a plan that is over or that cannot be applied now: nobody is asked about that."""
    if standing.state is PlanState.FROZEN:
        raise FrozenError(
            f"this deployment is frozen since {standing.at:%Y-%m-%d %H:%M} UTC ({standing.why}); nothing was done"
        )
    if standing.state is PlanState.FOREIGN:
        raise PlanError(f"plan {plan.plan_id} was not made by this deployment; nothing was done")
    if standing.state is PlanState.UNSEEN:
        raise PlanOutdatedError(f"{standing.why}; nothing was done")
    if standing.state is PlanState.USED:
        raise PlanUsedError(
            f"plan {plan.plan_id} was used by run {standing.run_id}, which ended {standing.at:%Y-%m-%d %H:%M} UTC "
            f"({standing.status}, {standing.summary}); nothing was done now"
        )
    if standing.state is PlanState.EXPIRED:
        raise PlanExpiredError(f"plan {plan.plan_id} expired at {plan.expires_at:%Y-%m-%d %H:%M} UTC; nothing was done")


def run(
    shared: Shared,
    record: Record,
    jobs: JobNames,
    select: Select = None,
    exclude: Exclude = None,
    strict: Strict = False,
    wait: Wait = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE.html", help="Write the report page afterwards.")
    ] = None,
) -> int:
    """Plan each JOB and apply it, in the order of a day. Stops after the plan where dry_run is true."""
    named = named_jobs(jobs)
    if report is not None:
        check_report(report)
    warden = worker.open_worker(shared)
    asked = _Asked(tuple(select or ()), tuple(exclude or ()), record.actor(warden), wait)
    if named is None or len(named) > 1:
        code = _night(warden, [ALL] if named is None else [spec.name for spec in named], asked, shared, strict)
    else:
        with stopping_between_batches(PLANS_ANEW), reporting(shared) as progress:
            result = warden.run(named[0].name, progress=progress, **asked._asdict())
        code = _tell(result, shared)
        code = Exit.REFUSED if strict and result.refused and code == Exit.DONE else code
    if report is None or code in (Exit.INTERRUPTED, Exit.TERMINATED):
        return code
    return write_afterwards(warden, report, shared, code)


class _Asked(NamedTuple):
    select: tuple[str, ...]
    exclude: tuple[str, ...]
    actor: Actor
    wait: float | None


def _night(warden: Warden, jobs: list[str], asked: _Asked, shared: Shared, strict: bool) -> int:
    """Several jobs and one closing table, also of a night that a signal ended."""
    so_far: list[NightResult] = []
    try:
        with stopping_between_batches(PLANS_ANEW), reporting(shared) as progress:
            night = warden.night(jobs, progress=progress, told=so_far.append, **asked._asdict())
    except Stopped as stop:
        if not so_far:
            raise
        night = replace(so_far[-1], stopped=stop.exit_code)
    screen = Screen()
    screen.document(night.as_json()) if shared.as_json else show_night(screen, night, shared.config)
    return night.exit_code(strict=strict)


def runs(
    shared: Shared,
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="One run in full.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many of the latest.")] = 20,
) -> int:
    """List the latest runs, or show one."""
    warden = worker.open_worker(shared)
    screen = Screen()
    if run_id is not None:
        detail = warden.run_detail(run_id)
        screen.document(detail) if shared.as_json else show_detail(screen, detail, shared.config)
        return Exit.DONE
    latest = [dict(run) for run in warden.runs(limit)]
    screen.document({"runs": latest}) if shared.as_json else show_runs(screen, latest)
    return Exit.DONE


def restore(
    shared: Shared,
    record: Record,
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="Bring back what this run quarantined.")] = None,
    from_cold: Annotated[
        str | None, typer.Option("--from-cold", metavar="SNAPSHOT", help="Bring back this snapshot from the cold tier.")
    ] = None,
    as_table: Annotated[
        str | None, typer.Option("--as", metavar="TABLE", help="With --from-cold: the new table's name.")
    ] = None,
    drill: Annotated[
        bool,
        typer.Option("--drill", help="Prove that quarantined files and cold snapshots come back. Changes no table."),
    ] = False,
    wait: Wait = None,
) -> int:
    """Bring back the files that a run put into quarantine, or a snapshot from the cold tier as a new table."""
    if drill and (run_id, from_cold, as_table) == (None, None, None):
        return _drill(shared, wait)
    if drill or (run_id is None) == (from_cold is None) or (from_cold is None) != (as_table is None):
        raise UsageError("restore takes RUN, or --from-cold SNAPSHOT and --as TABLE, or --drill; nothing was restored")
    warden = worker.open_worker(shared)
    actor = record.actor(warden)
    with stopping_between_batches(), reporting(shared) as progress:
        if run_id is not None:
            result = warden.restore(run_id, actor, wait=wait, progress=progress)
        else:
            result = warden.restore_cold(str(from_cold), str(as_table), actor, progress=progress, wait=wait)
    return _tell(result, shared)


def _drill(shared: Shared, wait: float | None) -> int:
    warden = worker.open_worker(shared)
    with stopping_between_batches(), reporting(shared) as progress:
        found = warden.restore_drill(progress, wait=wait)
    if shared.as_json:
        Screen().document(found.as_json())
    else:
        show_drill(Screen(), found)
    return found.exit_code


def _tell(result: RunResult, shared: Shared) -> int:
    if shared.as_json:
        Screen().document(result.as_json())
    else:
        show_run(Screen(), result, shared.config)
    return result.exit_code
