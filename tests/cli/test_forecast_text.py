"""A forecast as a person reads it: bars in blocks or plain characters, names that are never cut, nothing beyond the width."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from lakewarden.cli.forecast_text import bar, show_forecast
from lakewarden.cli.screen import Screen
from lakewarden.model.cost import Cost
from lakewarden.model.errors import Refusal
from lakewarden.model.forecast import RETENTIONS, Forecast, TableForecast
from lakewarden.model.plan import Tally
from tests.reports.page.fleets import NOW, facts_of, forecast_of, names

FLEET = Forecast(NOW, RETENTIONS, tuple(forecast_of(facts_of(i, name)) for i, name in enumerate(names(40))))
ONE = Forecast(NOW, RETENTIONS, FLEET.counted[:1])


def told(found: Forecast, width: int = 80, encoding: str = "utf-8", cost: Cost | None = None) -> list[str]:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    show_forecast(Screen(stream, terminal=False), found, cost or Cost(), width)
    stream.flush()
    return raw.getvalue().decode(encoding).splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("found", [FLEET, ONE], ids=["fleet", "one"])
def test_no_figure_lies_beyond_the_width(found: Forecast, width: int) -> None:
    lines = told(found, width)
    figures = [line for line in lines if "%" in line or line.startswith("prod.")]
    assert len(figures) > 5
    assert max(map(len, figures)) <= width


def test_a_curve_of_six_bars_that_gets_shorter() -> None:
    bars = [line for line in told(ONE) if line.rstrip().endswith("%")]
    assert [line.split()[0] for line in bars] == [str(days) for days in RETENTIONS]
    lengths = [line.count("█") for line in bars]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_plain_characters_where_blocks_cannot_be_written() -> None:
    lines = told(FLEET, encoding="ascii")
    assert any("#" in line for line in lines)
    assert all(line.isascii() for line in lines)


def test_a_little_is_never_shown_as_nothing() -> None:
    assert bar(0.0001, 20, blocks=True).strip() == "▏"
    assert bar(0.0001, 20, blocks=False).startswith("#")
    assert bar(0.0, 20, blocks=True).strip() == ""
    assert bar(1.0, 20, blocks=True) == "█" * 20
    assert bar(3.0, 20, blocks=False) == "#" * 20


def test_a_long_name_stands_whole_on_a_line_of_its_own() -> None:
    long = replace(FLEET.counted[0], identifier="prod.a." + "x" * 90)
    lines = told(Forecast(NOW, RETENTIONS, (long, *FLEET.counted[1:3])))
    assert long.identifier in lines


def test_refused_tables_come_first_and_the_rest_is_told() -> None:
    lines = told(FLEET)
    assert lines[0].startswith("FORECAST snapshot-expiry   2026-11-18 05:00 UTC   nothing was changed")
    refused = next(i for i, line in enumerate(lines) if line.startswith("REFUSED prod."))
    assert refused < next(i for i, line in enumerate(lines) if line.startswith("retention"))
    only = Forecast(NOW, RETENTIONS, (TableForecast("a", "iceberg", Refusal("LW-TABLE-002", "cut", "restore")),))
    assert "REFUSED a   LW-TABLE-002" in told(only)


def test_money_and_growth() -> None:
    text = "\n".join(told(ONE, cost=Cost(1.0, 0.0, "EUR")))
    assert " EUR a month at most, with a retention of 1 day" in text
    assert " a day, by the last 30 days" in text
    unknown = Forecast(NOW, RETENTIONS, (replace(ONE.tables[0], growth=None),))
    assert "adds     unknown" in "\n".join(told(unknown))


def test_one_file_is_one_file() -> None:
    small = replace(ONE.tables[0], now=Tally(1, 2048), snapshots=1)
    assert "now      1 file, 2.0 KiB, 1 snapshot in 1 table" in told(Forecast(NOW, RETENTIONS, (small,)))
