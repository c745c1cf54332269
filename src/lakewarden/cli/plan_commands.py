"""`plan`, `show`, `diff`: nothing here changes the lake."""

from __future__ import annotations

from typing import Annotated

import typer

from lakewarden.cli import worker
from lakewarden.cli.options import Exclude, JobName, PlanDir, Record, Select, Shared
from lakewarden.cli.plan_text import show_diff, show_plan
from lakewarden.cli.progress import reporting
from lakewarden.cli.screen import Screen, size
from lakewarden.jobs.registry import job_named
from lakewarden.model.errors import Exit
from lakewarden.model.plan import Plan
from lakewarden.model.verdict import Verdict


def plan(
    shared: Shared,
    record: Record,
    job: JobName,
    select: Select = None,
    exclude: Exclude = None,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help="Where to put the plan.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 if any table was refused.")] = False,
    unsafe_short_grace: Annotated[
        list[str] | None,
        typer.Option("--unsafe-short-grace", metavar="TABLE_UUID", help="Let this table's grace be below 24 h."),
    ] = None,
) -> int:
    """Look at the lake and write down what JOB would change. Changes nothing."""
    named = job_named(job).name
    warden = worker.open_worker(shared)
    with reporting(shared) as progress:
        result = warden.plan(
            named,
            select=tuple(select or ()),
            exclude=tuple(exclude or ()),
            out=out,
            actor=record.actor(warden),
            unsafe_short_grace=tuple(unsafe_short_grace or ()),
            progress=progress,
        )
    if shared.as_json:
        Screen().document({**result.as_json(), "standing": warden.standing(result.plan).as_json()})
    else:
        show_plan(Screen(), result, warden.standing(result.plan), shared.config)
    return plan_exit(result.plan, strict)


def plan_exit(plan: Plan, strict: bool) -> Exit:
    """Refused when every table was, or with --strict when any was."""
    refused = sum(table.refusal is not None for table in plan.tables)
    return Exit.REFUSED if refused and (strict or refused == len(plan.tables)) else Exit.DONE


def show(
    shared: Shared,
    plan_dir: PlanDir,
    files: Annotated[bool, typer.Option("--files", help="Also list files, with the reason for each.")] = False,
    verdict: Annotated[Verdict | None, typer.Option("--verdict", help="Only files of this verdict.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many files.")] = 1000,
) -> int:
    """Show a plan that was made earlier."""
    warden = worker.open_worker(shared)
    result = warden.load_plan(plan_dir)
    rows = list(warden.plan_rows(plan_dir, verdict, limit)) if files or verdict else None
    standing, screen = warden.standing(result.plan), Screen()
    if shared.as_json:
        more = {} if rows is None else {"files": rows}
        screen.document({**result.as_json(), "standing": standing.as_json(), **more})
        return Exit.DONE
    for row in rows or ():
        screen.line(f"{row['verdict']:<12} {size(row['size']):>11}  {row['uri']}   {row.get('reason') or ''}")
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
