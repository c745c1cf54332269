"""The bytes of a partition as values, against pypaimon's own serializer; and the times that values spell."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypaimon.schema.data_types import AtomicType, DataField
from pypaimon.table.row.generic_row import GenericRow, GenericRowSerializer

from lakewarden.formats.paimon.metadata.table import Schema
from lakewarden.formats.paimon.partitions.times import PartitionClock
from lakewarden.formats.paimon.partitions.values import Column, decode, label, partition_columns, spelled
from lakewarden.model.errors import ConfigError, UnsupportedTableError
from lakewarden.model.partition_times import compile_formatter, parse_default

MICROSECOND = timedelta(microseconds=1)
MILLISECONDS = st.integers(0, 253402300799999).map(lambda ms: datetime(1970, 1, 1) + timedelta(milliseconds=ms))
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT NOT NULL": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=20),
    "CHAR(9)": st.text(max_size=9),
    "VARCHAR(40) NOT NULL": st.text(max_size=20),
    "BYTES": st.binary(max_size=20),
    "BINARY(3)": st.binary(min_size=3, max_size=3),
    "DECIMAL(10, 2)": st.decimals(-(10**8) + 1, 10**8 - 1, places=2),
    "DECIMAL(38, 10)": st.decimals(-(10**28) + 1, 10**28 - 1, places=10),
    "DATE": st.dates(),
    "TIME(3)": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(3)": MILLISECONDS,
    "TIMESTAMP(6)": MOMENTS,
    "TIMESTAMP(9) NOT NULL": MOMENTS,
}


def columns_of(*types: str) -> tuple[Column, ...]:
    fields = tuple({"id": i, "name": f"c{i}", "type": kind} for i, kind in enumerate(types))
    return partition_columns(Schema(0, fields, tuple(f"c{i}" for i in range(len(types))), (), {}))


def encoded(types: list[str], values: list[Any]) -> bytes:
    fields = [DataField(i, f"c{i}", AtomicType(kind.removesuffix(" NOT NULL"))) for i, kind in enumerate(types)]
    made: bytes = GenericRowSerializer.to_bytes(GenericRow(values, fields))
    return made


@settings(deadline=None)
@given(st.data())
def test_every_type_comes_back_as_it_was_written(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    values = [data.draw(st.none() | VALUES[kind]) for kind in types]
    assert decode(encoded(types, values), columns_of(*types)) == tuple(values)


@pytest.mark.parametrize("count", [55, 56, 57, 119, 120, 121])
def test_the_bits_for_nulls_take_whole_words(count: int) -> None:
    values = [None if i % 3 else i for i in range(count)]
    assert decode(encoded(["INT"] * count, values), columns_of(*["INT"] * count)) == tuple(values)


@pytest.mark.parametrize("kind", ["TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"])
def test_a_timestamp_with_a_zone_comes_back_in_utc(kind: str) -> None:
    moment = datetime(2024, 3, 1, 12, 30, 15, 123000)
    (found,) = decode(encoded([kind], [moment]), columns_of(kind))
    assert found == moment.replace(tzinfo=UTC)


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "MAP<INT, INT>", "VARIANT", "ROW<a INT>", {"type": "ARRAY"}, None])
def test_a_type_that_no_partition_has_is_refused(kind: Any) -> None:
    schema = Schema(0, ({"id": 0, "name": "p", "type": kind},), ("p",), (), {})
    with pytest.raises(UnsupportedTableError, match="partition column p"):
        partition_columns(schema)


@pytest.mark.parametrize("cut", range(0, 38, 5))
def test_cut_bytes_are_an_error_and_never_another_value(cut: int) -> None:
    whole = encoded(["STRING", "BIGINT"], ["a text of some length", 5])
    with pytest.raises(ValueError, match="partition"):
        decode(whole[:cut], columns_of("STRING", "BIGINT"))
    with pytest.raises(ValueError, match="other columns"):
        decode(whole, columns_of("STRING"))


def test_a_day_beyond_the_calendar_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        decode(encoded(["INT"], [2**31 - 1]), columns_of("DATE"))


def test_values_as_people_write_them() -> None:
    moment = datetime(2024, 3, 1, 23, 30)
    assert spelled(moment) == "2024-03-01 23:30:00"
    assert spelled(moment.replace(tzinfo=UTC), ZoneInfo("Europe/Berlin")) == "2024-03-02 00:30:00"
    assert [spelled(v) for v in (True, Decimal("1E+3"), b"\x01", 5)] == ["true", "1000", "01", "5"]
    columns = columns_of("DATE", "STRING")
    assert label(columns, (date(2024, 3, 1), None)) == "c0=2024-03-01/c1=__DEFAULT_PARTITION__"


# -- times


WITHOUT_FORMATTER: list[tuple[str, datetime | None]] = [
    ("2024-01-31", datetime(2024, 1, 31)),
    ("2024-1-3", datetime(2024, 1, 3)),
    ("2024-02-30", datetime(2024, 3, 1)),
    ("2024-13-1", datetime(2025, 1, 1)),
    ("2024-1-0", datetime(2023, 12, 31)),
    ("2024-01-31 23:59:59", datetime(2024, 1, 31, 23, 59, 59)),
    ("2024-01-31 1:2:3", datetime(2024, 1, 31, 1, 2, 3)),
    ("2024-01-31 24:00:00", datetime(2024, 2, 1)),
    ("2024-01-31 10:00:00.5", datetime(2024, 1, 31, 10, 0, 0, 500000)),
    ("2024-01-31 10:00:00.0000001", datetime(2024, 1, 31, 10, 0, 0, 1)),
    ("2024-01-31 10:00", None),
    ("2024-01-31T10:00:00", None),
    ("20240131", None),
    (" 2024-01-31", None),
    ("99999-01-01", None),
    ("0-01-01", None),
    ("-5-01-01", None),
    ("٢٠٢٤-01-01", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), WITHOUT_FORMATTER)
def test_the_form_without_a_formatter(text: str, expected: datetime | None) -> None:
    assert parse_default(text) == expected


WITH_FORMATTER: list[tuple[str, str, datetime | None]] = [
    ("yyyyMMdd", "20240131", datetime(2024, 1, 31)),
    ("yyyyMMdd", "20240231", datetime(2024, 2, 29)),
    ("yyyyMMdd", "20241301", None),
    ("yyyyMMdd", "20240132", None),
    ("yyyyMMdd", "2024-01-31", None),
    ("yyyyMMdd", "120240131", None),
    ("uuuu-MM-dd", "2024-01-31", datetime(2024, 1, 31)),
    ("y-M-d", "2024-1-3", datetime(2024, 1, 3)),
    ("yyMMdd", "240131", datetime(2024, 1, 31)),
    ("y/MM/dd", "24/01/31", datetime(24, 1, 31)),
    ("yyyyMMddHH", "2024013105", datetime(2024, 1, 31, 5)),
    ("yyyyMMddHHmmssSSS", "20240131051015123", datetime(2024, 1, 31, 5, 10, 15, 123000)),
    ("yyyy-MM-dd'T'HH:mm:ss", "2024-01-31T05:10:15", datetime(2024, 1, 31, 5, 10, 15)),
    ("yyyy-MM-dd 'o''clock' HH", "2024-01-31 o'clock 07", datetime(2024, 1, 31, 7)),
    ("yyyy''MM''dd", "2024'01'31", datetime(2024, 1, 31)),
    ("yyyy-MM-dd[ HH:mm]", "2024-01-31", datetime(2024, 1, 31)),
    ("yyyy-MM-dd[ HH:mm]", "2024-01-31 09:08", datetime(2024, 1, 31, 9, 8)),
    ("yyyy-MM-dd HH:mm", "2024-01-31 25:00", None),
    ("yyyy-MM-dd mm", "2024-01-31 30", datetime(2024, 1, 31)),
    ("yyyy.MM.dd", "2024x01x31", None),
    ("yyyy-MM-dd yyyy", "2024-01-31 2024", datetime(2024, 1, 31)),
    ("yyyy-MM-dd yyyy", "2024-01-31 2023", None),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), WITH_FORMATTER)
def test_forms_with_a_formatter(pattern: str, text: str, expected: datetime | None) -> None:
    assert compile_formatter(pattern)(text) == expected


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("YYYY-MM-dd", "letter 'Y'"),
        ("yyyy-DDD", "letter 'D'"),
        ("yyyy-MMM-dd", "'MMM'"),
        ("yyyy-MM-ddd", "'ddd'"),
        ("yyyy-MM-dd hh:mm a", "letter 'h'"),
        ("yyyyMd", "two numbers of any length"),
        ("yyyy-MM", "no year, month and day"),
        ("HH:mm", "no year, month and day"),
        ("yyyy-MM-dd'T", "'"),
        ("yyyy-MM-dd[ HH", "bracket"),
        ("yyyy-MM-dd]", "bracket"),
        ("yyyy-MM-dd {HH}", "'{'"),
        ("yyyyMMddSSSSSSSSSS", "SSSSSSSSSS"),
    ],
)
def test_a_formatter_that_is_not_covered_is_refused_by_name(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_formatter(pattern)
    assert said in caught.value.message
    assert pattern in caught.value.message


@settings(deadline=None)
@given(MOMENTS)
def test_what_a_formatter_writes_it_reads(moment: datetime) -> None:
    text = moment.strftime("%Y%m%d-%H:%M:%S.%f")
    assert compile_formatter("yyyyMMdd-HH:mm:ss.SSSSSS")(text) == moment


def clock(
    *columns: tuple[str, str], pattern: str | None = None, formatter: str | None = None, zone: str = "UTC"
) -> PartitionClock:
    found = tuple(Column(name, kind) for name, kind in columns)
    return PartitionClock.of(found, pattern, formatter, ZoneInfo(zone))


def test_the_first_column_counts_without_a_pattern() -> None:
    assert clock(("dt", "STRING"), ("h", "INT")).read(("2024-01-31", 5)) == datetime(2024, 1, 31)


def test_columns_are_put_together_the_longest_name_first() -> None:
    found = clock(("dt", "STRING"), ("dt1", "STRING"), ("h", "INT"), pattern="$dt1 $h:00:00")
    assert found.read(("2023-01-01", "2024-01-31", 5)) == datetime(2024, 1, 31, 5)
    plain = clock(("y", "INT"), ("m", "INT"), pattern="$y-$m-01 $costs")
    assert plain.read((2024, 5)) == "'2024-5-01 $costs' is no time of the form year-month-day[ hour:minute:second]"


def test_dates_and_timestamps_need_no_formatter() -> None:
    """They never expire in Java, which takes the number of the day for the text of a date."""
    assert clock(("d", "DATE"), formatter="yyyyMMdd").read((date(2024, 1, 31),)) == datetime(2024, 1, 31)
    assert clock(("d", "DATE"), pattern="$d").read((date(2024, 1, 31),)) == datetime(2024, 1, 31)
    moment = datetime(2024, 1, 31, 23, 30)
    assert clock(("t", "TIMESTAMP")).read((moment,)) == moment
    local = clock(("t", "TIMESTAMP_LTZ"), zone="Asia/Tokyo")
    assert local.read((moment.replace(tzinfo=UTC),)) == datetime(2024, 2, 1, 8, 30)
    joined = clock(("d", "DATE"), ("h", "INT"), pattern="$d $h:00:00")
    assert joined.read((date(2024, 1, 31), 7)) == datetime(2024, 1, 31, 7)


def test_numbers_that_spell_a_day() -> None:
    assert clock(("dt", "INT"), formatter="yyyyMMdd").read((20240131,)) == datetime(2024, 1, 31)


def test_what_spells_no_time_says_so() -> None:
    assert clock(("dt", "STRING")).read((None,)) == "dt is null"
    assert clock(("dt", "STRING"), ("h", "INT"), pattern="$dt $h:00:00").read(("2024-01-31", None)) == "h is null"
    assert clock(("dt", "STRING"), ("h", "INT")).read(("2024-01-31", None)) == datetime(2024, 1, 31)
    found = clock(("dt", "STRING"), formatter="yyyyMMdd").read(("latest",))
    assert found == "'latest' is no time of the form yyyyMMdd"
    assert clock(("d", "DATE")).read((None,)) == "d is null"
    assert isinstance(clock(("t", "TIME")).read((time(5),)), str)
