"""`plan`, `show`, `diff`: nothing here changes the lake."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakewarden.cli import worker
from lakewarden.cli.night_text import show_planned_night
from lakewarden.cli.options import Exclude, JobName, PlanDir, Record, Select, Shared, Strict
from lakewarden.cli.partition_text import show_partitions
from lakewarden.cli.plan_text import show_diff, show_plan
from lakewarden.cli.progress import reporting
from lakewarden.cli.screen import Screen, size
from lakewarden.model.errors import Exit
from lakewarden.model.night import plan_exit
from lakewarden.model.run import PlanResult
from lakewarden.model.verdict import Verdict
from lakewarden.night.names import named_jobs


def plan(
    shared: Shared,
    record: Record,
    job: JobName,
    select: Select = None,
    exclude: Exclude = None,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help="Where to put the plan.")] = None,
    strict: Strict = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 if the plan has anything to change.")
    ] = False,
    unsafe_short_grace: Annotated[
        list[str] | None,
        typer.Option("--unsafe-short-grace", metavar="TABLE_UUID", help="Let this table's grace be below 24 h."),
    ] = None,
) -> int:
    """Look at the lake and write down what JOB would change. Changes nothing."""
    named = named_jobs([job])
    with reporting(shared) as progress:
        warden = worker.open_worker(shared)
        asked: dict[str, Any] = {
            "select": tuple(select or ()),
            "exclude": tuple(exclude or ()),
            "out": out,
            "actor": record.actor(warden),
            "unsafe_short_grace": tuple(unsafe_short_grace or ()),
            "progress": progress,
        }
        if named is None:
            plans: list[PlanResult] = []
            night = warden.plan_night([job], planned=plans.append, **asked)
        else:
            result = warden.plan(named[0].name, **asked)
    if named is None:
        Screen().document(night.as_json()) if shared.as_json else show_planned_night(
            Screen(), night, plans, shared.config
        )
        code, waits = night.exit_code(strict=strict), any(any(outcome.planned.values()) for outcome in night.jobs)
    else:
        standing = warden.standing(result.plan)
        if shared.as_json:
            Screen().document({**result.as_json(), "standing": standing.as_json()})
        else:
            show_plan(Screen(), result, standing, shared.config, new=True)
        code, waits = plan_exit(result.plan, strict), any(result.plan.totals()["changes"].values())
    return Exit.CHANGES_WAIT if detailed_exitcode and waits and code == Exit.DONE else code


def show(
    shared: Shared,
    plan_dir: PlanDir,
    files: Annotated[
        bool, typer.Option("--files", help="Also list files or partitions, with the reason for each.")
    ] = False,
    verdict: Annotated[Verdict | None, typer.Option("--verdict", help="Only files of this verdict.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many files.")] = 1000,
) -> int:
    """Show a plan that was made earlier."""
    warden = worker.open_worker(shared)
    result = warden.load_plan(plan_dir)
    found = warden.plan_rows(plan_dir, verdict, limit) if files or verdict else None
    rows = None if found is None else sorted(found, key=lambda row: str(row["uri"]))
    standing, screen = warden.standing(result.plan), Screen()
    if shared.as_json:
        more = {} if rows is None else {"files": rows}
        screen.document({**result.as_json(), "standing": standing.as_json(), **more})
        return Exit.DONE
    for row in rows or ():
        screen.line(f"{row['verdict']:<12} {size(row['size']):>11}  {row['uri']}   {row.get('reason') or ''}")
    if files:
        show_partitions(screen, result.plan, limit)
    show_plan(screen, result, standing, shared.config)
    return Exit.DONE


def diff(
    shared: Shared,
    plan_a: Annotated[str, typer.Argument(metavar="PLAN_A", help="The earlier plan's directory.")],
    plan_b: Annotated[str, typer.Argument(metavar="PLAN_B", help="The later plan's directory.")],
) -> int:
    """Compare what two plans would change."""
    found = worker.open_worker(shared).diff(plan_a, plan_b)
    if shared.as_json:
        Screen().document(found.as_json())
    else:
        show_diff(Screen(), found)
    return Exit.DONE
