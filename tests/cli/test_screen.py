"""Rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lakewarden.cli.options import Shared
from lakewarden.cli.progress import reporting
from lakewarden.cli.screen import Screen


def test_plain_lines_have_no_codes_and_columns_line_up() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.line("hello", style="bold")
    screen.grid(("name", "n"), [("a", 1), ("bbb", 22)], frozenset({1}))
    assert stream.getvalue().splitlines() == ["hello", "name   n", "a      1", "bbb   22"]


def test_a_terminal_gets_colour_unless_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain = io.StringIO(), io.StringIO()
    Screen(coloured, terminal=True).line("x", style="red")
    monkeypatch.setenv("NO_COLOR", "1")
    Screen(plain, terminal=True).line("x", style="red")
    assert "\x1b[31m" in coloured.getvalue()
    assert "\x1b[31m" not in plain.getvalue()


def test_markup_in_names_is_not_obeyed_on_a_terminal() -> None:
    stream = io.StringIO()
    screen = Screen(stream, terminal=True)
    screen.line("[red]a[/red]", style="bold")
    screen.grid(("name",), [("[red]b[/red]",)])
    assert "[red]a[/red]" in stream.getvalue()
    assert "[red]b[/red]" in stream.getvalue()


def test_progress_elsewhere_is_a_line_at_the_start_and_end_of_a_stage(capsys: Any) -> None:
    with reporting(Shared(), terminal=False) as progress:
        for done in range(101):
            progress("listing", done, 100)
        progress("reading", 0, 0)
    assert capsys.readouterr().err.splitlines() == ["listing 0/100", "listing 100/100", "reading"]


def test_progress_on_a_terminal_keeps_stdout_clean(capsys: Any) -> None:
    with reporting(Shared(), terminal=True) as progress:
        progress("listing", 1, 2)
    assert capsys.readouterr().out == ""
