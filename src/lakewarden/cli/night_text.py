"""A night as a person reads it: refused tables first, then what failed, then one table of all jobs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from lakewarden.cli.plan_text import show_summary
from lakewarden.cli.run_text import way_back
from lakewarden.cli.screen import Screen, number
from lakewarden.cli.to_type import to_type
from lakewarden.jobs.registry import job_named
from lakewarden.model.errors import Exit
from lakewarden.model.night import JobOutcome, JobStatus, NightResult
from lakewarden.model.run import PlanResult, RefusedTable
from lakewarden.steps.summary import planned_by, told, what_it_did

SHOWN_REFUSALS = 20
SHOWN_FAILURES = 20
_STYLES = {JobStatus.DONE: "bold green", JobStatus.PLANNED: "bold"}


def show_night(screen: Screen, night: NightResult, config: str | None = None, *, only_planned: bool = False) -> None:
    """The whole night, ending with one line that says how it went."""
    if not night.jobs:
        screen.line("No job is enabled for any selected table, so there was nothing to do.", style="bold")
        screen.line("Set enabled = true in a job's section; `lakewarden policy TABLE` shows what is in effect.")
        return
    _show_refusals(screen, night)
    _show_failures(screen, night)
    rows = [
        (job.job, job.status, _what(job), number(len(job.refused)) if job.refused else "", _seconds(job.seconds))
        for job in night.jobs
    ]
    told = "what it would do" if only_planned else "what it did"
    screen.grid(("job", "status", told, "refused", "time"), rows, frozenset({3, 4}), drop=(4, 3))
    for line in _next(night, config):
        screen.line(line)
    screen.line(closing_line(night), style=_STYLES.get(night.status, "bold yellow"))


def show_planned_night(
    screen: Screen, night: NightResult, plans: Sequence[PlanResult], config: str | None = None
) -> None:
    """What would be done tonight: a summary of each plan that has something to change, then the same closing table."""
    for planned in plans:
        if any(planned.plan.totals()["changes"].values()):
            show_summary(screen, planned.plan, planned.path)
    show_night(screen, night, config, only_planned=True)


def closing_line(night: NightResult) -> str:
    """`partial: 4 done, 1 failed, 1 skipped in 28.5 s; 2 tables refused`."""
    counts = Counter(job.status for job in night.jobs)
    jobs = ", ".join(f"{number(counts[status])} {status}" for status in JobStatus if counts[status])
    refused = (
        f"; {number(night.refused)} {'table' if night.refused == 1 else 'tables'} refused" if night.refused else ""
    )
    total = _seconds(sum(job.seconds for job in night.jobs))
    return f"{night.status}: {jobs} in {total}{refused}"


def _what(job: JobOutcome) -> str:
    """What a job did, in its own words; of one that was not run, why."""
    if job.skipped_because is not None:
        return job.skipped_because
    parts = [what_it_did(job_named(job.job), result) for result in job.results]
    if job.error is not None:
        return "; ".join([*parts, job.error.code])
    if job.planned and (job.result is None or job.status is not JobStatus.PLANNED):
        would = told(planned_by(job_named(job.job), job.planned, trash=job.to_trash))
        parts.append(f"only planned: {would}" if job.result else would)
    if job.left_alone:
        tables = "1 table waits" if len(job.left_alone) == 1 else f"{number(len(job.left_alone))} tables wait"
        parts.append(f"{tables} for an earlier job")
    if job.brakes:
        held = len({table for tables in job.brakes.values() for table in tables})
        parts.append(f"brakes hold {'1 table' if held == 1 else f'{number(held)} tables'}")
    if not parts:
        parts = ["stopped before it changed anything" if job.status is JobStatus.STOPPED else "nothing to do"]
    return "; ".join(parts)


def _next(night: NightResult, config: str | None) -> Iterator[str]:
    """What to type: to take back what was done, where a command can, and to do what was only planned."""
    for job in night.jobs:
        for result in job.results:
            if (back := way_back(job_named(job.job), result, config)) is not None:
                yield f"To undo what {job.job} did{back}"
        if job.status is JobStatus.PLANNED and job.planned and job.plan_path:
            apply = to_type(f"apply {shlex.quote(job.plan_path)} --yes", config)
            yield f"To do what {job.job} planned: {apply}"
        if job.brakes and job.plan_path:
            show = to_type(f"show {shlex.quote(job.plan_path)}", config)
            yield f"What brakes hold of {job.job}: {show}"
    if any(job.status is JobStatus.SKIPPED and job.exit_code is Exit.REFUSED for job in night.jobs):
        yield f"When the reason for the freeze is gone: {to_type('unfreeze', config)}"
    if any(job.status is JobStatus.PARTIAL for job in night.jobs) and night.stopped is None:
        yield "Not everything was done. It is safe to run the same command again."
    if night.stopped is not None:
        yield "A signal ended the night. Run the same command again: it goes on where this one stopped."


def _show_refusals(screen: Screen, night: NightResult) -> None:
    """Each table once for each reason, with the jobs that refused it."""
    found: dict[RefusedTable, list[str]] = {}
    for job in night.jobs:
        for table in job.refused:
            found.setdefault(table, []).append(job.job)
    for table, jobs in list(found.items())[:SHOWN_REFUSALS]:
        screen.line(f"REFUSED {table.table}   {table.code}   by {', '.join(jobs)}", style="bold yellow")
        screen.line(f"  {table.message}")
        screen.line(f"  next: {table.hint}")
    if len(found) > SHOWN_REFUSALS:
        screen.line(f"and {number(len(found) - SHOWN_REFUSALS)} more refused; --output json names them all")
    if found:
        screen.line()


def _show_failures(screen: Screen, night: NightResult) -> None:
    for job in night.jobs:
        if job.error is not None:
            screen.line(f"{str(job.status).upper()} {job.job}   {job.error.code}", style="bold red")
            screen.line(f"  {job.error.message}")
            screen.line(f"  next: {job.error.hint}")
        failed = [file for result in job.results for file in result.failed]
        unnamed = sum(result.unnamed for result in job.results)
        for file in failed[:SHOWN_FAILURES]:
            screen.line(f"FAILED {job.job}   {file.uri}   {file.code} {file.message}", style="red")
        if more := len(failed[SHOWN_FAILURES:]) + unnamed:
            named = f"the first {number(len(failed))}" if unnamed else "them all"
            screen.line(f"and {number(more)} more of {job.job}; --output json names {named}")
    if any(job.error or any(result.failed for result in job.results) for job in night.jobs):
        screen.line()


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
