"""Bounds that hold every row, counts that are true, whatever the rows are."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data.columns import arrow_schema
from lakewarden.formats.iceberg.data.metrics import Metrics

TEXTS = st.text(max_size=40) | st.sampled_from(["\U0010ffff" * 20, "a" * 5000, "\ud7ff" * 17, ""])


def metrics_of(kind: str, *batches: list[Any], **properties: str) -> Metrics:
    schema = arrow_schema({"fields": [{"id": 1, "name": "a", "type": kind}]})
    found = Metrics(schema, properties)
    for rows in batches:
        found.add(pa.RecordBatch.from_pylist([{"a": value} for value in rows], schema=schema))
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.none() | TEXTS, max_size=5), max_size=3))
def test_bounds_of_texts_hold_every_one(batches: list[list[str | None]]) -> None:
    lower, upper = metrics_of("string", *batches).bounds()
    values = [value.encode() for rows in batches for value in rows if value is not None]
    assert (1 in lower) == bool(values)
    for value in values:
        assert lower[1] <= value
        assert 1 not in upper or value <= upper[1]
    for bound in (*lower.values(), *upper.values()):
        assert len(bound.decode()) <= 16


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=30), max_size=6))
def test_bounds_of_bytes_hold_every_one(rows: list[bytes | None]) -> None:
    lower, upper = metrics_of("binary", rows).bounds()
    for value in (value for value in rows if value is not None):
        assert lower[1] <= value
        assert 1 not in upper or value <= upper[1]


@given(st.lists(st.none() | st.floats(allow_nan=True), max_size=8))
def test_a_number_that_is_none_is_counted_and_bounds_nothing(rows: list[float | None]) -> None:
    found = metrics_of("double", rows)
    values, nulls, nans = found.counts()
    real = [value for value in rows if value is not None and not math.isnan(value)]
    missing = sum(value is None for value in rows)
    assert (values[1], nulls[1], nans[1]) == (len(rows), missing, len(rows) - missing - len(real))
    lower, upper = found.bounds()
    if not real:
        assert (lower, upper) == ({}, {})
        return
    assert struct.unpack("<d", lower[1])[0] == min(real)
    assert struct.unpack("<d", upper[1])[0] == max(real)


def test_zero_is_below_and_above_both_zeros() -> None:
    lower, upper = metrics_of("float", [0.0, -0.0]).bounds()
    assert (lower[1], upper[1]) == (struct.pack("<f", -0.0), struct.pack("<f", 0.0))


@pytest.mark.parametrize(
    ("kind", "rows", "least", "most"),
    [
        ("int", [3, -1], struct.pack("<i", -1), struct.pack("<i", 3)),
        ("long", [2**40, -1], struct.pack("<q", -1), struct.pack("<q", 2**40)),
        ("boolean", [True, False], b"\x00", b"\x01"),
        ("date", [None], None, None),
        ("decimal(9,2)", [], None, None),
    ],
)
def test_values_are_written_as_the_specification_says(kind: str, rows: list[Any], least: Any, most: Any) -> None:
    lower, upper = metrics_of(kind, rows).bounds()
    assert (lower.get(1), upper.get(1)) == (least, most)


def uuid_bounds(*values: bytes) -> tuple[dict[int, bytes], dict[int, bytes]]:
    schema = arrow_schema({"fields": [{"id": 1, "name": "a", "type": "uuid"}]})
    found = Metrics(schema, {"write.metadata.metrics.default": "truncate(4)"}, uuids={1})
    for value in values:
        found.add(pa.RecordBatch.from_pylist([{"a": value}, {"a": None}], schema=schema))
    return found.bounds()


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=5))
def test_uuids_have_bounds_only_where_every_reader_takes_them_right(values: list[bytes]) -> None:
    """Java's readers compare the halves of a uuid as signed numbers, the specification's words are bytes."""

    def java(value: bytes) -> tuple[int, ...]:
        return struct.unpack(">qq", value)

    lower, upper = uuid_bounds(*values)
    if min(values) == min(values, key=java) and max(values) == max(values, key=java):
        assert (lower, upper) == ({1: min(values)}, {1: max(values)})
    else:
        assert (lower, upper) == ({}, {})


@given(st.lists(st.none() | st.binary(min_size=20, max_size=20), max_size=5))
def test_bytes_of_one_length_are_never_cut(rows: list[bytes | None]) -> None:
    values = [value for value in rows if value is not None]
    expected = ({1: min(values)}, {1: max(values)}) if values else ({}, {})
    assert metrics_of("fixed[20]", rows).bounds() == expected


@given(st.lists(st.none() | st.times(), max_size=5))
def test_bounds_of_times_are_microseconds(rows: list[Any]) -> None:
    def micros(at: Any) -> int:
        return ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + int(at.microsecond)

    values = [micros(at) for at in rows if at is not None]
    lower, upper = metrics_of("time", rows).bounds()
    if values:
        assert (lower[1], upper[1]) == (struct.pack("<q", min(values)), struct.pack("<q", max(values)))
    else:
        assert (lower, upper) == ({}, {})


@pytest.mark.parametrize(
    ("value", "most"),
    [
        ("a" * 15 + "\ud7ff!", "a" * 15 + "\ue000"),
        ("a" * 15 + "\U0010ffff!", "a" * 14 + "b"),
        ("\U0010ffff" * 17, None),
        ("\U0001f600" * 17, "\U0001f600" * 15 + "\U0001f601"),
        ("\U0010ffff" * 16, "\U0010ffff" * 16),
    ],
)
def test_a_cut_text_is_followed_by_the_next_one_there_is(value: str, most: str | None) -> None:
    lower, upper = metrics_of("string", [value]).bounds()
    assert lower[1].decode() == value[:16]
    assert upper.get(1) == (most.encode() if most is not None else None)


def noted(columns: list[dict[str, Any]], sorted_by: tuple[str, ...] = (), **properties: str) -> set[int]:
    """The columns that have bounds."""
    schema = arrow_schema({"fields": columns})
    found = Metrics(schema, {f"write.metadata.metrics.{key}": value for key, value in properties.items()}, sorted_by)
    row = {one["name"]: {"x": 1} if isinstance(one["type"], dict) else 1 for one in columns}
    found.add(pa.RecordBatch.from_pylist([row], schema=schema))
    return set(found.bounds()[0])


def test_of_a_wide_table_the_first_columns_are_noted() -> None:
    """Java counts the plain columns before those within structs."""
    struct_ = {"type": "struct", "fields": [{"id": 50, "name": "x", "type": "long"}]}
    columns = [{"id": 1, "name": "s", "type": struct_}, *({"id": n, "name": f"c{n}", "type": "long"} for n in (2, 3))]
    few = {"max-inferred-column-defaults": "2"}
    assert noted(columns) == {50, 2, 3}
    assert noted(columns, **few) == {2, 3}
    assert noted(columns, ("s.x",), **few) == {50, 2, 3}
    assert noted(columns, **few, **{"column.s.x": "full", "column.c2": "counts"}) == {50, 3}
    assert noted(columns, **few, default="full") == {50, 2, 3}
    assert noted(columns, ("c2",), default="counts") == {2}
    assert noted(columns, default="truncate(0)") == {50, 2, 3}


def test_times_beyond_the_calendar_have_bounds() -> None:
    schema = arrow_schema({"fields": [{"id": 1, "name": "a", "type": "timestamp"}]})
    found = Metrics(schema, {})
    far = 2**62
    found.add(pa.RecordBatch.from_arrays([pa.array([far], pa.int64()).cast(pa.timestamp("us"))], schema=schema))
    assert found.bounds()[1][1] == struct.pack("<q", far)


def test_decimals_are_as_short_as_they_can_be() -> None:
    from decimal import Decimal

    lower, upper = metrics_of("decimal(9,2)", [Decimal("-1.28"), Decimal("1.27"), Decimal("1.28")]).bounds()
    assert (lower[1], upper[1]) == (b"\x80", b"\x00\x80")


def test_long_decimals_are_not_rounded() -> None:
    from decimal import Decimal

    rows = [Decimal("-99999999999999999999999999999999999.999"), Decimal("12345678901234567890123456789012345.644")]
    lower, upper = metrics_of("decimal(38,3)", rows).bounds()
    assert int.from_bytes(lower[1], "big", signed=True) == -(10**38 - 1)
    assert int.from_bytes(upper[1], "big", signed=True) == 12345678901234567890123456789012345644


def test_members_of_a_missing_struct_are_missing() -> None:
    inner = {"type": "struct", "fields": [{"id": 2, "name": "x", "type": "long"}]}
    schema = arrow_schema({"fields": [{"id": 1, "name": "s", "type": inner}]})
    found = Metrics(schema, {})
    found.add(pa.RecordBatch.from_pylist([{"s": {"x": 4}}, {"s": None}, {"s": {"x": None}}], schema=schema))
    assert found.counts()[:2] == ({2: 3}, {2: 2})
    assert found.bounds()[0] == {2: struct.pack("<q", 4)}


def test_the_owner_says_how_much_is_noted() -> None:
    none = metrics_of("string", ["abc"], **{"write.metadata.metrics.default": "none"})
    assert (none.counts()[0], none.bounds()) == ({}, ({}, {}))
    counts = metrics_of("string", ["abc"], **{"write.metadata.metrics.column.a": "counts"})
    assert (counts.counts()[0], counts.bounds()) == ({1: 1}, ({}, {}))
    full = metrics_of("string", ["x" * 50], **{"write.metadata.metrics.column.a": "full"})
    assert full.bounds()[1][1] == b"x" * 50
    short = metrics_of("string", ["abc"], **{"write.metadata.metrics.column.a": "truncate(2)"})
    assert (short.bounds()[0][1], short.bounds()[1][1]) == (b"ab", b"ac")
