"""One run in full, as a person reads it: who, when, what it did, what it noted on the way, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lakewarden.cli.run_text import job_of, kept_by, what_next
from lakewarden.cli.screen import Screen, number, one_line, size
from lakewarden.model.run import RunResult, RunStatus

_OPEN = {
    "running": "It is at work.",
    "stopped": "It was stopped, and its plan is not used up: the same apply goes on with it, until the plan expires.",
}


def show_detail(screen: Screen, run: Mapping[str, Any], config: str | None = None) -> None:
    """Everything that the record says of one run."""
    screen.line(f"RUN {run['run_id']}   {job_of(run)}   {run['status']}", style="bold")
    for label, value in _facts(run):
        screen.line(f"  {label:<12}{value}")
    if steps := run.get("steps"):
        screen.line()
        screen.line("NOTED ON THE WAY", style="bold")
        for step in steps:
            screen.line(f"  {second(step['at'])}  {step['name']:<14}  {one_line(_worth_reading(step['detail']))}")
    result = RunResult.of(run["result"]) if run.get("result") else None
    if result and result.failed:
        screen.line()
        for file in result.failed:
            screen.line(f"FAILED {file.uri}   {file.code} {file.message}", style="red")
        if result.unnamed:
            screen.line(f"and {number(result.unnamed)} more; `lakewarden audit who FILE` knows of each")
    lines = [_OPEN[run["status"]]] if run["status"] in _OPEN and run.get("plan_id") else []
    if result and result.status != RunStatus.PLANNED and not _trash_is_over(run):
        lines += what_next(result, config)
    if lines:
        screen.line()
    for line in lines:
        screen.line(line)


def _worth_reading(detail: Any) -> Any:
    """A step's detail, less what the lines above say of the run already. What lies within stands beside the rest, but for
    counts that are zero: `snapshots=3`, not `changes=snapshots=3  refs=0`."""
    if not isinstance(detail, dict):
        return detail
    told: dict[str, Any] = {}
    for name, value in detail.items():
        if isinstance(value, dict) and name != "lineage":
            told |= {inner: item for inner, item in value.items() if item != 0}
        elif name != "lineage":
            told[name] = value
    return told


def _facts(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    actor = run.get("actor") or {}
    if actor:
        yield "by", by_whom(actor)
    if run.get("started_at"):
        ended = f" to {second(run['finished_at'])}" if run.get("finished_at") else ", and has not ended"
        yield "from", f"{second(run['started_at'])}{ended}"
    if plan := run.get("plan_id") or (run.get("result") or {}).get("plan_id"):
        yield "plan", plan
    if run.get("summary"):
        yield "did", run["summary"]
    for name, tally in (run.get("outcomes") or {}).items():
        yield "files", f"{name} {number(tally['files'])} ({size(tally['bytes'])})"
    for why, count in kept_by(run["job"], (run.get("result") or {}).get("kept") or {}).items():
        yield "kept", f"{why} {number(count)}"
    if at := run.get("progress"):
        where = f", the last in {at['root']}" if at["root"] else ""
        yield "reached", f"{number(at['processed'])} of {number(at['of'])} files{where}, {second(at['at'])}"
    if opened := run.get("open_batches"):
        yield "open", f"batches {one_line(opened)}: announced and not recorded; the next apply of the plan settles them"


def _trash_is_over(run: Mapping[str, Any]) -> bool:
    """Whether what the run put into quarantine was purged or brought back since."""
    return any(step["name"] in ("purged", "restored") for step in run.get("steps") or ())


def by_whom(actor: Mapping[str, Any]) -> str:
    """Who did something: ana on night-1 (manual, ticket OPS-1)."""
    ticket = f", ticket {actor['ticket']}" if actor.get("ticket") else ""
    return f"{actor['operator']} on {actor['worker']} ({actor['trigger']}{ticket})"


def second(instant: str | datetime) -> str:
    """An instant as people read it, to the second."""
    moment = datetime.fromisoformat(instant) if isinstance(instant, str) else instant
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
