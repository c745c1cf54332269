"""A run as a person reads it: what failed, one closing line of counts in the job's own words, and how to undo it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from lakewarden.cli.screen import Screen, number, size
from lakewarden.cli.to_type import to_type
from lakewarden.jobs.registry import job_named
from lakewarden.model.drill import DrillResult, DrillStatus
from lakewarden.model.errors import Exit
from lakewarden.model.run import RESTORED, REVALIDATED, RunResult, RunStatus
from lakewarden.model.verdict import Verdict
from lakewarden.steps.counts import FILES, Count
from lakewarden.steps.job import JobSpec
from lakewarden.steps.summary import changed_by, planned_by, run_summary, told, unchanged

SHOWN_FAILURES = 20
RESTORE = "{restore}"  # in the words of a job whose runs `restore` takes back
KEPT_WORDS = {REVALIDATED: "changed since the plan"}
_STYLES = {RunStatus.DONE: "bold green", RunStatus.PLANNED: "bold"}


def what_changed(result: RunResult) -> str:
    """One line, in the job's own words: `12 snapshots, 1 ref expired`. Never empty."""
    return run_summary(job_named(result.job), result)


def show_run(screen: Screen, result: RunResult, config: str | None = None) -> None:
    _show_refused(screen, result)
    for file in result.failed[:SHOWN_FAILURES]:
        screen.line(f"FAILED {file.uri}   {file.code} {file.message}", style="red")
    shown = min(len(result.failed), SHOWN_FAILURES)
    if result.failures > shown:
        named = f"the first {number(len(result.failed))}" if result.unnamed else "all of them"
        screen.line(f"and {number(result.failures - shown)} more; {named}: {to_type(f'runs {result.run_id}', config)}")
    for why, count in kept_by(result.job, result.kept).items():
        screen.line(f"kept: {why} {number(count)}")
    screen.line(closing_line(result), style=_STYLES.get(result.status, "bold yellow"))
    for line in what_next(result, config):
        screen.line(line)


def kept_by(job: str, kept: Mapping[str, int]) -> dict[str, int]:
    """Files that a run left alone, by the reason: not those that are needed, nor those that it released itself."""
    told = {Verdict.LIVE} if job_named(job).deletes else {Verdict.LIVE, Verdict.PENDING}
    left = {verdict: count for verdict, count in kept.items() if count and verdict not in told}
    return {KEPT_WORDS.get(verdict, verdict.replace("_", " ")): count for verdict, count in left.items()}


def _show_refused(screen: Screen, result: RunResult) -> None:
    """The tables that were left alone, each with the reason and the next step."""
    for table in result.refused[:SHOWN_FAILURES]:
        screen.line(f"REFUSED {table.table}   {table.code}", style="bold yellow")
        screen.line(f"  {table.message}")
        screen.line(f"  next: {table.hint}")
    if len(result.refused) > SHOWN_FAILURES:
        screen.line(f"and {number(len(result.refused) - SHOWN_FAILURES)} more refused; --output json names them all")


def closing_line(result: RunResult) -> str:
    """`done  deleted=1,106  freed=31.8 GiB  kept=3  run=…`: every count that is not zero, always in this order."""
    spec = job_named(result.job)
    if result.status == RunStatus.PLANNED:
        return f"planned  {told(planned_by(spec, result.planned, trash=result.to_trash)) or 'nothing to do'}  run={result.run_id}"
    changed = [pair for count in changed_by(spec, result) for pair in _pairs(count)]
    others = {
        "hidden": result.hidden.files,
        "absent": result.absent,
        "kept": sum(kept_by(result.job, result.kept).values()),
    }
    if not spec.deletes:
        others["released"] = result.kept.get(Verdict.PENDING, 0)
    others |= {"refused": len(result.refused), "failed": result.failures}
    rest = [f"{name}={number(count)}" for name, count in others.items() if count]
    return "  ".join([str(result.status), *(changed or [unchanged(result)]), *rest, f"run={result.run_id}"])


def what_next(result: RunResult, config: str | None = None) -> list[str]:
    """What a person may want to type after a run, with the configuration that it was run with: the apply of a dry run,
    another try, the undo."""
    spec = job_named(result.job)
    if result.status == RunStatus.PLANNED:
        apply = to_type(f"apply {shlex.quote(result.plan_path) if result.plan_path else 'PLAN_DIR'} --yes", config)
        done = "deleted" if spec.deletes else "changed"
        return [f"Nothing has been {done} (dry_run = true). To do exactly this: {apply}"]
    lines = ["Not everything was done. It is safe to plan and apply again."] if result.exit_code == Exit.PARTIAL else []
    if RESTORED in result.changed:
        return ["Not everything was brought back. It is safe to restore again."] if lines else []
    return [*lines, *_undo(spec, result, config), *_looked_at(spec, result, config)]


def _looked_at(spec: JobSpec, result: RunResult, config: str | None) -> list[str]:
    """What the run would have done to tables that it only looked at."""
    would = told(planned_by(spec, result.planned, trash=result.to_trash))
    if not would:
        return []
    tables = "1 table" if len(result.looked_at) == 1 else f"{number(len(result.looked_at))} tables"
    first = to_type(f"plan {spec.name} --select {shlex.quote(result.looked_at[0])}", config)
    return [f"Only looked at, because of dry_run: {tables}, {would}. To plan them for an apply: {first}"]


def _undo(spec: JobSpec, result: RunResult, config: str | None) -> list[str]:
    """How to take back what a run did, or that it cannot be; nothing where nothing was changed."""
    lines, undo = [], spec.words.undo.format(restore=to_type(f"restore {result.run_id}", config))
    if result.quarantined.files:
        lines.append(f"To undo it{way_back(spec, result, config)}")
    if spec.deletes:
        if result.hidden.files:
            files = Count(result.hidden.files, FILES)
            lines.append(f"{files} can be brought back from the bucket's older versions.")
        return lines if result.deleted.files == result.hidden.files else [*lines, undo]
    return [undo] if any(result.changed.values()) else []


def way_back(spec: JobSpec, result: RunResult, config: str | None) -> str | None:
    """` until 2026-01-22 06:08 UTC: lakewarden restore RUN`; None where no command takes back what the run did."""
    if not result.quarantined.files and not (RESTORE in spec.words.undo and any(result.changed.values())):
        return None
    until = f" until {result.restorable_until:%Y-%m-%d %H:%M} UTC" if result.restorable_until else ""
    return f"{until}: {to_type(f'restore {result.run_id}', config)}"


def _pairs(count: Count) -> list[str]:
    """`deleted=26`, `freed=1.2 MiB`; `snapshots=12`: files, and what is brought back, are told by what became of them, all
    else by its name."""
    name = count.fate if count.kind == FILES or count.fate == RESTORED else count.kind
    pairs = [f"{name}={number(count.number)}"]
    if count.bytes is not None:
        pairs.append(f"{'freed' if name == 'deleted' else 'size'}={size(count.bytes)}")
    return pairs


def show_runs(screen: Screen, runs: list[dict[str, Any]]) -> None:
    """The latest runs, one row each."""
    if not runs:
        screen.line("No runs yet.")
        return
    rows = [
        (
            run["run_id"],
            "restore" if run.get("act") == "restore" else run["job"],
            run["status"],
            _minute(run["started_at"]),
            run.get("operator"),
            run.get("summary"),
        )
        for run in runs
    ]
    screen.grid(("run id", "job", "status", "started at", "operator", "what it did"), rows, drop=(4, 3))


def job_of(run: Mapping[str, Any]) -> str:
    """The run's job; a restore is a restore, whatever job took the files away."""
    return f"restore ({run['job']})" if run.get("act") == "restore" else str(run["job"])


def _minute(instant: Any) -> str:
    """`2026-11-15T06:00:04+00:00` as people read it."""
    return f"{str(instant)[:16].replace('T', ' ')} UTC"


def show_drill(screen: Screen, found: DrillResult) -> None:
    """Each thing that was to come back, and what became of it; what was never tried is not called proven."""
    for one in found.drills:
        came = f": {number(one.files)} {'file' if one.files == 1 else 'files'}, {size(one.bytes)}, came back as it went"
        screen.line(f"{one.status} {one.place}  {one.what}{came if one.status is DrillStatus.PROVEN else ''}")
        if one.error is not None:
            screen.line(f"  {one.error['code']} {one.error['message']}", style="red")
            screen.line(f"  next: {one.error['hint']}")
    failed = len(found.failed)
    style, words = ("bold red", f"failed  {failed} of {len(found.drills)}") if failed else ("bold green", "done")
    screen.line(f"{words}; no table was changed", style=style)
