"""Rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from lakewarden.cli.screen import Screen
from tests.support.terminals import CONTROLS


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


def at(width: int) -> tuple[Screen, io.StringIO]:
    stream = io.StringIO()
    return Screen(stream, terminal=True, width=width), stream


def shown_in(stream: io.StringIO) -> list[str]:
    return CONTROLS.sub("", stream.getvalue()).splitlines()


UUID = "5a9f2c41-0d3e-4a7b-9c52-8e1f6b7d0a34"


def test_a_narrow_terminal_leaves_columns_out_in_the_stated_order() -> None:
    rows = [(UUID, 12, "done", "s3://lake/sales/orders/"), (UUID, 3, "failed", "s3://lake/a/")]
    for width, shown in ((80, [0, 1, 2, 3]), (60, [0, 1, 2]), (45, [0, 1])):
        screen, stream = at(width)
        screen.grid(("run", "files", "status", "place"), rows, frozenset({1}), drop=(3, 2))
        lines = shown_in(stream)
        assert lines[0].split() == [("run", "files", "status", "place")[i] for i in shown]
        assert lines[2].split() == [str(rows[1][i]) for i in shown]
        assert max(map(len, lines)) <= width
        assert {len(line.split(UUID)[1].rstrip()[:7]) for line in lines[1:]} == {7}, "numbers end in one column"


def test_a_row_that_does_not_fit_is_a_paragraph_and_nothing_is_split() -> None:
    screen, stream = at(40)
    screen.grid(("run", "place", "why"), [(UUID, "s3://lake/sales/orders/" + "x" * 80, None)])
    assert shown_in(stream) == [UUID, f"  place: s3://lake/sales/orders/{'x' * 80}"]


def test_elsewhere_nothing_is_left_out() -> None:
    stream = io.StringIO()
    Screen(stream).grid(("run", "place"), [(UUID, "x" * 200)], drop=(1,))
    assert stream.getvalue().splitlines()[1] == f"{UUID}  {'x' * 200}"


def test_sentences_are_broken_at_spaces_and_commands_and_addresses_are_not() -> None:
    screen, stream = at(40)
    screen.line("  Nothing has been deleted from the three tables of this plan. To do exactly this: "
                "lakewarden apply 'file:///srv/my plans/20261118T050000Z-orphan-cleanup' --yes")  # fmt: skip
    screen.line("Look at `lakewarden runs 5a9f2c41 --output json` and then decide.", style="bold")
    assert shown_in(stream) == [
        "  Nothing has been deleted from the",
        "    three tables of this plan. To do",
        "    exactly this:",
        "    lakewarden apply 'file:///srv/my plans/20261118T050000Z-orphan-cleanup' --yes",
        "Look at",
        "  `lakewarden runs 5a9f2c41 --output json`",
        "  and then decide.",
    ]


def test_wide_characters_take_two_columns() -> None:
    stream = io.StringIO()
    Screen(stream).grid(("table", "n"), [("注文", 1), ("é", 22)], frozenset({1}))
    assert stream.getvalue().splitlines() == ["table   n", "注文    1", "é      22"]


def test_facts_have_no_python_in_them() -> None:
    stream = io.StringIO()
    Screen(stream).facts(
        {
            "none": None,
            "empty": [],
            "no": False,
            "zero": 0,
            "deep": {"a": None, "b": [1, "x"]},
            "list": [{"k": ["v"]}],
        }
    )
    assert stream.getvalue().splitlines() == [
        "no: no",
        "zero: 0",
        "deep:",
        "  b:",
        "    - 1",
        "    - x",
        "list:",
        "  - k=v",
    ]
