"""How far a command is: a bar on a terminal, a line now and then elsewhere. Each call is also a place to stop."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lakewarden.cli.options import Shared
from lakewarden.cli.signals import SafePoint
from lakewarden.model.ports import Progress

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def reporting(shared: Shared, safe_point: SafePoint | None = None, terminal: bool | None = None) -> Iterator[Progress]:
    """A callback (stage, done, total) for the work; with a safe point it raises Stopped after a signal."""
    terminal = sys.stderr.isatty() if terminal is None else terminal
    with _nothing() if shared.quiet else _bars() if terminal else _lines() as show:

        def report(stage: str, done: int, total: int) -> None:
            show(stage, done, total)
            if safe_point is not None:
                safe_point.check()

        yield report


@contextmanager
def _nothing() -> Iterator[Progress]:
    yield lambda stage, done, total: None


@contextmanager
def _bars() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            bars.update(tasks[stage], completed=done, total=total or None)

        yield show


@contextmanager
def _lines() -> Iterator[Progress]:
    said: dict[str, float] = {}

    def show(stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        finished = total > 0 and done >= total
        if stage not in said or finished or now - said[stage] >= SECONDS_BETWEEN_LINES:
            said[stage] = now
            sys.stderr.write(f"{stage} {done}/{total}\n" if total else f"{stage}\n")
            sys.stderr.flush()

    yield show
