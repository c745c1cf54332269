"""When a partition of texts ended: never before the last instant that its columns could mean, in whatever order they stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.partitions.choice import Judged, PartitionClock, expirable_partitions
from lakewarden.formats.iceberg.partitions.specs import Field, Spec
from lakewarden.model.partitions import PartitionFiles, partition_key
from tests.support.policies import partition_policy

CODES = {"y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S"}
WIDTHS = {"y": 4, **dict.fromkeys("MdHms", 2)}
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe")


def judged(formatter: str | None, pattern: str | None, zone: str = "UTC", **values: Any) -> Judged:
    specs = {0: Spec(0, tuple(Field(name, "identity", "string") for name in values))}
    policy = partition_policy(timestamp_formatter=formatter, timestamp_pattern=pattern, time_zone=zone)
    row = PartitionFiles(partition_key(0, values.values()), 1, None)
    return PartitionClock.of(policy).judge(specs, row)


def ended(formatter: str | None, pattern: str | None, **values: Any) -> str:
    """The end in UTC as short as it can be said, or why there is none."""
    found = judged(formatter, pattern, **values)
    if found.end is None:
        return found.reason
    return f"{found.end:%Y-%m-%d %H:%M:%S}".removesuffix(":00").removesuffix(" 00:00")


YEAR, MONTH, DAY = {"y": "2026"}, {"y": "2026", "m": "11"}, {"y": "2026", "m": "11", "d": "30"}


@pytest.mark.parametrize(
    ("formatter", "pattern", "values", "expected"),
    [
        # Constants behind the columns, before them, between them, on both sides.
        (None, "$y-$m-01", MONTH, "2026-12-01"),
        ("yyyy-MM-dd", "$y-$m-01", MONTH, "2026-12-01"),
        ("dd-MM-yyyy", "01-$m-$y", MONTH, "2026-12-01"),
        ("dd/MM/yyyy", "15/$m/$y", MONTH, "2026-12-01"),
        ("HH:mm dd.MM.yyyy", "00:00 01.$m.$y", MONTH, "2026-12-01"),
        ("HH:mm dd.MM.yyyy", "00:00 $d.$m.$y", DAY, "2026-12-01"),
        ("MM-dd-yyyy", "$m-01-$y", MONTH, "2026-12-01"),
        ("dd yyyy MM HH", "01 $y $m 00", MONTH, "2026-12-01"),
        ("ddMMyyyy", "01$m$y", MONTH, "2026-12-01"),
        ("yyyyMMdd", "$y$m01", MONTH, "2026-12-01"),
        ("dd-MM-yyyy", "01-01-$y", YEAR, "2027-01-01"),
        (None, "$y-01-01 00:00:00", YEAR, "2027-01-01"),
        # A constant between two columns makes the finer one worth nothing.
        ("yyyy-MM-dd", "$y-01-$d", {"y": "2026", "d": "05"}, "2027-01-01"),
        ("dd HH:mm MM-yyyy", "01 $h:00 $m-$y", {**MONTH, "h": "05"}, "2026-12-01"),
        # Everything by columns.
        ("dd-MM-yyyy", "$d-$m-$y", DAY, "2026-12-01"),
        ("ss:mm:HH dd-MM-yyyy", "00:00:$h $d-$m-$y", {**DAY, "h": "05"}, "2026-11-30 06:00"),
        (None, "$y-$m-$d $h:00:00", {**DAY, "h": "5"}, "2026-11-30 06:00"),
        (None, "$dt 00:00:00", {"dt": "2026-11-30"}, "2026-12-01"),
        (None, "$dt", {"dt": "2026-11-30 05:06:07"}, "2026-11-30 05:06:08"),
        (None, None, {"dt": "2026-11-30"}, "2026-12-01"),
        ("yyyyMMddHH", None, {"dt": "2026113005"}, "2026-11-30 06:00"),
        ("yyyy-MM-dd[ HH:mm]", None, {"dt": "2026-11-30"}, "2026-12-01"),
        ("yyyy-MM-dd[ HH:mm]", None, {"dt": "2026-11-30 05:06"}, "2026-11-30 05:07"),
        # No time of day can be made of these, so the hour is not one.
        ("yyyy-MM-dd HH ss", None, {"dt": "2026-11-30 05 07"}, "2026-12-01"),
        ("yyyy-MM-dd HH:mm SSS", None, {"dt": "2026-11-30 05:06 007"}, "2026-12-01"),
        # Half a number: the constant leads it, or stands for every digit behind.
        ("yyyy-MM-dd", "20$yy-$m-01", {"yy": "26", "m": "11"}, "2026-12-01"),
        ("yyyy-MM-dd", "$y-$m-$d0", {**MONTH, "d": "1"}, "2026-12-01"),
        ("yyyy-MM-dd", "$d0-01-01", {"d": "202"}, "the year of '2020-01-01' is not a column's"),
        ("yyyyMMdd", "$y$m101", {"y": "2026", "m": "1"}, "2027-01-01"),
        # A column that is named twice, or whose name goes on.
        (None, "$y-$m-$m", MONTH, "2026-12-01"),
        (None, "$y-$m1-01", {"y": "2026", "m": "1"}, "2027-01-01"),
        # In doubt there is no end.
        ("yyyy-MM-dd", "2026-$m-$d", {"m": "11", "d": "30"}, "the year of '2026-11-30' is not a column's"),
        (None, "$y-$m-00", MONTH, "'2026-11-00' has a month or a day 0"),
        (None, "$y-00-00", YEAR, "'2026-00-00' has a month or a day 0"),
        (None, None, {"dt": "26-11-30"}, "'26-11-30' is of the year 26"),
        (None, "$y-$m-$d", MONTH, "'2026-11-$d' is no time of the form year-month-day[ hour:minute:second]"),
        (None, None, {"dt": "9999-12-31"}, "'9999-12-31' is beyond the calendar"),
        (None, None, {"dt": None}, "dt is null"),
        # Too much of one part is more of the next, which is later.
        (None, "$y-$m-45", MONTH, "2027-01-01"),
        (None, "$dt 30:00:00", {"dt": "2026-11-30"}, "2026-12-02"),
    ],
)
def test_the_end_is_that_of_what_the_columns_spell(
    formatter: str | None, pattern: str | None, values: dict[str, Any], expected: str
) -> None:
    assert ended(formatter, pattern, **values) == expected


@st.composite
def spellings(draw: st.DrawFn) -> tuple[datetime, str | None, str, str, dict[str, str]]:
    """An instant, and a partition that it may lie in: formatter, pattern, zone, values.

    Each part of the time comes from a column, from the pattern, or from both; the pattern's digits are anything.
    """
    instant = draw(st.datetimes(datetime(1990, 1, 1), datetime(2089, 12, 31), timezones=st.just(UTC)))
    zone = draw(st.sampled_from(ZONES))
    wall = instant.astimezone(ZoneInfo(zone))
    units = ["y", "M", "d", *"Hms"[: draw(st.integers(0, 3))]]
    default = draw(st.booleans()) and len(units) in (3, 6)
    if not default:
        units = draw(st.permutations(units))
    other = f"{draw(st.integers(1990, 2089))}", *(f"{draw(st.integers(low, 28)):02}" for low in (1, 1, 0, 0, 0))
    others = dict(zip("yMdHms", other, strict=True)) | {"M": f"{draw(st.integers(1, 12)):02}"}
    values: dict[str, str] = {}
    pieces: list[str] = []
    for unit in units:
        true = wall.strftime(CODES[unit])
        origin = draw(st.sampled_from(["column", "column", "column", "constant", "head", "tail"]))
        cut = draw(st.integers(1, WIDTHS[unit] - 1))
        name = f"{unit}_"
        values |= {"column": {name: true}, "head": {name: true[:cut]}, "tail": {name: true[cut:]}}.get(origin, {})
        pieces.append(
            {
                "column": f"${name}",
                "constant": others[unit],
                "head": f"${name}{others[unit][cut:]}",
                "tail": f"{true[:cut]}${name}",
            }[origin]
        )
    values |= {} if values else {"region": "eu"}
    if default:
        return instant, None, "".join(chain(*zip(pieces, ("-", "-", " ", ":", ":", ""), strict=False))), zone, values
    separator = draw(st.sampled_from(["", "-", " ", "/", "T"]))
    formatter = (f"'{separator}'" if separator else "").join(unit * WIDTHS[unit] for unit in units)
    return instant, formatter, separator.join(pieces), zone, values


@settings(max_examples=400, deadline=None)
@given(spellings())
def test_no_partition_ends_before_an_instant_that_its_values_may_mean(
    spelling: tuple[datetime, str | None, str, str, dict[str, str]],
) -> None:
    instant, formatter, pattern, zone, values = spelling
    end = judged(formatter, pattern.rstrip(), zone, **values).end
    assert end is None or end > instant


@pytest.mark.parametrize("hour", range(24))
def test_an_hour_before_the_clock_jumps_ahead_is_not_cut_short(hour: int) -> None:
    """On that night in Berlin there is no 02:00: the hour before it ends when the clock shows 03:00."""
    night = datetime(2026, 3, 28, 23, tzinfo=UTC) + timedelta(hours=hour)
    wall = night.astimezone(ZoneInfo("Europe/Berlin"))
    found = judged("yyyy-MM-dd HH", "$dt $hour", "Europe/Berlin", dt=f"{wall:%Y-%m-%d}", hour=f"{wall:%H}")
    assert found.end == night + timedelta(hours=1)


def test_this_month_is_not_dropped_a_week_into_it() -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    specs = {0: Spec(0, (Field("year", "identity", "int"), Field("month", "identity", "string")))}
    rows = [PartitionFiles(partition_key(0, (2026, month)), 1, None) for month in ("09", "10", "11")]
    policy = partition_policy(
        expiration=timedelta(days=7), timestamp_formatter="dd-MM-yyyy", timestamp_pattern="01-$month-$year"
    )
    found = expirable_partitions(specs, policy, rows, now)
    assert [line.label for line in found.expired] == ["year=2026/month=09", "year=2026/month=10"]
    assert [line.reason for line in found.kept] == ["month, year ended 2026-12-01 00:00:00, not more than 7 days ago"]
