"""How far a command is: its steps with their times, the one under way with its count."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol

from lakewarden.cli.options import Shared
from lakewarden.cli.signals import command
from lakewarden.cli.step import Step, duration, line_of
from lakewarden.model.ports import Progress

SECONDS_BETWEEN_LINES = 10.0


class Display(Protocol):
    """Where steps are shown: a terminal, or lines elsewhere."""

    def show(self, under_way: list[Step]) -> None:
        """Called when a step begins, ends or gets on."""

    def ended(self, step: Step, well: bool) -> None: ...


class Steps:
    """The steps that are under way, at most one of each thread: a thread's next step ends the one before it.

    The command's own are those of the thread that makes this.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self._own = threading.get_ident()
        self._closed = False
        self._under_way: dict[int, Step] = {}
        self._lock = threading.Lock()

    def report(self, stage: str, done: int, total: int) -> None:
        thread = threading.get_ident()
        with self._lock:
            if self._closed:
                return
            step, over = self._under_way.get(thread), None
            if step is None or step.name != stage:
                over, step = step, Step(stage, total)
            step.done, step.total = done, total
            self._under_way[thread] = step
            if 0 < total <= done and thread != self._own:
                # Work beside the command's own, such as the start of Spark, says when it is over.
                over = self._under_way.pop(thread)
            self._display.show([*self._under_way.values()])
            if over is not None:
                self._display.ended(over, well=True)

    def close(self, well: bool) -> None:
        """The command's own step is over. Of what else was going on nobody knows how it ended."""
        with self._lock:
            own = self._under_way.pop(self._own, None)
            self._under_way.clear()
            self._closed = True
            self._display.show([])
            if own is not None:
                self._display.ended(own, well)


@contextmanager
def reporting(shared: Shared, terminal: bool | None = None) -> Iterator[Progress]:
    """A callback (stage, done, total) for the work."""
    if terminal is None:
        terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    wanted = not shared.quiet and (terminal or not shared.json_log)
    with ExitStack() as shown:
        steps = Steps(shown.enter_context((_bars() if terminal else _lines()) if wanted else nullcontext(Nothing())))

        def left_alone() -> None:
            steps.close(well=False)
            shown.close()

        command().abandoned.append(left_alone)
        try:
            steps.report("start", 0, 0)
            yield steps.report
        except BaseException:
            steps.close(well=False)
            raise
        steps.close(well=True)


class Nothing:
    """For whoever wants to know nothing."""

    def show(self, under_way: list[Step]) -> None: ...

    def ended(self, step: Step, well: bool) -> None: ...


def _bars() -> AbstractContextManager[Display]:
    from lakewarden.cli.bars import Bars

    return Bars()


@contextmanager
def _lines() -> Iterator[Display]:
    lines = Lines()
    over = threading.Event()

    def now_and_then() -> None:
        while not over.wait(SECONDS_BETWEEN_LINES):
            lines.remind()

    threading.Thread(target=now_and_then, name="progress", daemon=True).start()
    try:
        yield lines
    finally:
        over.set()


class Lines:
    """A line for each step when it has ended, and for one that takes long a line now and then."""

    def __init__(self) -> None:
        self._under_way: list[Step] = []

    def show(self, under_way: list[Step]) -> None:
        self._under_way = under_way

    def ended(self, step: Step, well: bool) -> None:
        _write(line_of(step, well))

    def remind(self) -> None:
        for step in self._under_way:
            if step.seconds >= SECONDS_BETWEEN_LINES / 2:
                _write("  ".join(filter(None, (f"… {step.name}", step.count, duration(step.seconds), step.left))))


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
