"""Steps and their times: drawn on a terminal, lines elsewhere, and no more of them than help."""

from __future__ import annotations

import io
import re
import sys
import threading
from typing import Any

import pytest

from lakewarden.cli import step as module
from lakewarden.cli.bars import Bars
from lakewarden.cli.options import Form, Shared
from lakewarden.cli.progress import Lines, reporting
from lakewarden.cli.step import Step, duration
from tests.golden.command import on_screen


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was said, without the times."""
    return [re.sub(r"  \d+\.\d s", "", line) for line in capsys.readouterr().err.splitlines()]


def test_elsewhere_a_step_is_one_line_when_it_is_over(capsys: Any) -> None:
    with reporting(Shared(), terminal=False) as progress:
        for done in range(101):
            progress("list", done, 100)
        progress("read", 0, 0)
        assert lines(capsys) == ["✓ start", "✓ list  100 of 100"]
    assert lines(capsys) == ["✓ read"]


def test_a_step_in_a_thread_of_its_own_goes_on_beside_the_commands(capsys: Any) -> None:
    with reporting(Shared(), terminal=False) as progress:
        progress("load tables", 0, 0)
        beside = threading.Thread(target=lambda: (progress("start Spark", 0, 1), progress("start Spark", 1, 1)))
        beside.start()
        beside.join()
        progress("compare", 0, 0)
    assert lines(capsys) == ["✓ start", "✓ start Spark", "✓ load tables", "✓ compare"]


def test_the_step_that_failed_has_no_tick_and_nothing_is_said_of_what_else_went_on(capsys: Any) -> None:
    def fail() -> None:
        with reporting(Shared(), terminal=False) as progress:
            beside = threading.Thread(target=progress, args=("start Spark", 0, 1))
            beside.start()
            beside.join()
            progress("compare", 0, 0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert lines(capsys) == ["✓ start", "✗ compare"]


def test_a_long_step_is_told_of_now_and_then(capsys: Any, monkeypatch: Any) -> None:
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    shown = Lines()
    step = Step("delete", 61_380, began=100.0)
    shown.show([step])
    shown.remind()
    clock[0], step.done = 110.0, 12_000
    shown.remind()
    assert capsys.readouterr().err == "… delete  12,000 of 61,380  10 s  about 41 s left\n"


@pytest.mark.parametrize(
    ("done", "total", "seconds", "left"),
    [
        (0, 100, 60, ""),
        (50, 0, 60, ""),
        (50, 100, 1, ""),
        (50, 100, 60, "about 60 s left"),
        (1, 100, 60, "about 1 h 39 min left"),
        (100, 100, 60, ""),
    ],
)
def test_an_estimate_only_where_it_is_none_of_a_guess(
    monkeypatch: Any, done: int, total: int, seconds: float, left: str
) -> None:
    step = Step("delete", total, done, began=0.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds)
    assert step.left == left


def test_durations_are_as_exact_as_a_person_wants_them() -> None:
    said = [duration(seconds) for seconds in (0.04, 9.94, 12.3, 89, 200, 3600, 7500)]
    assert said == ["0.0 s", "9.9 s", "12 s", "89 s", "3 min", "1 h 0 min", "2 h 5 min"]


@pytest.mark.parametrize("shared", [Shared(quiet=True), Shared(log_format=Form.JSON)])
def test_nothing_where_it_is_not_wanted(capsys: Any, shared: Shared) -> None:
    with reporting(shared, terminal=False) as progress:
        progress("list", 1, 1)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_finished_steps_stay_and_stdout_is_clean(capsys: Any) -> None:
    with reporting(Shared(), terminal=True) as progress:
        progress("list", 1, 2)
        progress("read", 0, 0)
    said = capsys.readouterr()
    assert said.out == ""
    assert "✓ list  1 of 2" in said.err


class SlowTerminal(io.StringIO):
    """A terminal that is asked what it can print by a step that ends, and answers when another thread has drawn, if it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.drawn = threading.Event(), threading.Event()
        self.ends: threading.Thread | None = None

    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:
        if threading.current_thread() is self.ends:
            self.asked.set()
            self.drawn.wait(0.5)
        return "utf-8"


def test_no_step_that_is_over_is_wiped_out_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SlowTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    under_way = [Step("compare", 0), Step("start Spark", 0)]

    def draw() -> None:
        terminal.asked.wait(10)
        bars.show([])
        bars.show(under_way)
        terminal.drawn.set()

    with Bars() as bars:
        bars.show([Step("load tables", 0)])
        bars.ended(Step("start", 0), True)
        other = threading.Thread(target=draw)
        other.start()
        terminal.ends = threading.current_thread()
        bars.ended(Step("load tables", 0), True)
        terminal.ends = None
        other.join()
        bars.show([])
    left = [line for line in on_screen(terminal.getvalue()).splitlines() if line.strip()]
    assert left == ["✓ start  0.0 s", "✓ load tables  0.0 s"]
