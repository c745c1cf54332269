"""A run as a person reads it: what failed, then one closing line of counts."""

from __future__ import annotations

import shlex
from typing import Any

from lakewarden.cli.screen import Screen, number, size
from lakewarden.model.errors import Exit
from lakewarden.model.run import RunResult, RunStatus

SHOWN_FAILURES = 20
_STYLES = {RunStatus.DONE: "bold green", RunStatus.PLANNED: "bold"}
_RUN_COLUMNS = ("run_id", "job", "status", "started_at", "operator", "deleted", "failed")


def show_run(screen: Screen, result: RunResult) -> None:
    for file in result.failed[:SHOWN_FAILURES]:
        screen.line(f"FAILED {file.uri}   {file.code} {file.message}", style="red")
    if len(result.failed) > SHOWN_FAILURES:
        screen.line(
            f"and {number(len(result.failed) - SHOWN_FAILURES)} more; lakewarden runs {result.run_id} names them all"
        )
    for verdict, count in result.kept.items():
        screen.line(f"kept: {verdict} {number(count)}")
    screen.line(closing_line(result), style=_STYLES.get(result.status, "bold yellow"))
    if result.status == RunStatus.PLANNED:
        path = shlex.quote(result.plan_path) if result.plan_path else "PLAN_DIR"
        screen.line(f"Nothing has been deleted (dry_run = true). To do exactly this: lakewarden apply {path} --yes")
    elif result.exit_code == Exit.PARTIAL:
        screen.line("Some files could not be deleted. It is safe to plan and apply again.")


def closing_line(result: RunResult) -> str:
    """`done deleted=1,106 freed=31.8 GiB absent=0 …`: every count, always in this order."""
    counts = {
        "deleted": number(result.deleted.files),
        "freed": size(result.deleted.bytes - result.hidden.bytes),
        "quarantined": number(result.quarantined.files),
        "absent": number(result.absent),
        "kept": number(sum(result.kept.values())),
        "failed": number(len(result.failed)),
    }
    if result.hidden.files:
        counts["hidden"] = number(result.hidden.files)
    others = {kind: number(count) for kind, count in result.changed.items() if kind != "files"}
    words = "  ".join(f"{name}={count}" for name, count in {**counts, **others}.items())
    return f"{result.status}  {words}  run={result.run_id}"


def show_runs(screen: Screen, runs: list[dict[str, Any]]) -> None:
    """The latest runs, one row each."""
    if not runs:
        screen.line("No runs yet.")
        return
    columns = [name for name in _RUN_COLUMNS if any(name in run for run in runs)]
    screen.grid(
        [name.replace("_", " ") for name in columns], [[_cell(run.get(name)) for name in columns] for run in runs]
    )


def _cell(value: Any) -> str:
    if isinstance(value, dict) and {"files", "bytes"} <= value.keys():
        return f"{number(value['files'])} ({size(value['bytes'])})"
    if isinstance(value, list):
        return number(len(value))
    return "" if value is None else str(value)
