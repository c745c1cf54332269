"""Rows of old files under today's columns: by id, exactly, at every depth."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data.columns import arrow_schema, initial_defaults, partition_constants
from lakewarden.formats.iceberg.data.projection import Absent, projected
from lakewarden.model.errors import UnsupportedTableError


def point(first: int) -> dict[str, Any]:
    return schema(column(first + 5, "x", "int"), column(first + 6, "y", "string"))


def schema(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def column(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": False, **more}


def from_file(rows: list[dict[str, Any]], columns: dict[str, Any]) -> pa.RecordBatch:
    """The rows as a Parquet file of these columns gives them back."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(columns)), sink, store_schema=False)
    return pq.read_table(pa.BufferReader(sink.getvalue())).combine_chunks().to_batches()[0]


def seen(batch: pa.RecordBatch, columns: dict[str, Any]) -> list[dict[str, Any]]:
    found = projected(batch, list(arrow_schema(columns)), Absent(initial_defaults(columns)))
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_a_column_is_found_by_its_id_whatever_it_is_called() -> None:
    batch = from_file([{"old": 1}], schema(column(1, "old", "long")))
    assert seen(batch, schema(column(1, "new", "long"))) == [{"new": 1}]


def test_a_column_that_was_dropped_and_made_again_begins_empty() -> None:
    batch = from_file([{"a": 1}], schema(column(1, "a", "long")))
    assert seen(batch, schema(column(2, "a", "long"))) == [{"a": None}]


def test_a_column_that_came_later_has_its_initial_default() -> None:
    batch = from_file([{"a": 1}], schema(column(1, "a", "long")))
    later = schema(
        column(1, "a", "long"),
        column(2, "n", "int", **{"initial-default": 7}),
        column(3, "d", "date", **{"initial-default": "2024-02-29"}),
        column(4, "m", "decimal(9,2)", **{"initial-default": "1.50"}),
        column(5, "t", "time", **{"initial-default": "22:31:08.123456"}),
    )
    found = seen(batch, later)[0]
    assert (found["n"], str(found["d"]), str(found["m"])) == (7, "2024-02-29", "1.50")
    assert found["t"] == dt.time(22, 31, 8, 123456)


@pytest.mark.parametrize("place", ["element", "value"])
def test_a_member_that_came_later_has_its_initial_default_in_lists_and_maps(place: str) -> None:
    def columns(*more: dict[str, Any]) -> dict[str, Any]:
        point = schema(column(5, "x", "int"), *more)
        if place == "element":
            return schema(column(1, "a", {"type": "list", "element-id": 2, "element": point}))
        return schema(column(1, "a", {"type": "map", "key-id": 2, "key": "int", "value-id": 3, "value": point}))

    one = [{"x": 1}, None] if place == "element" else [(1, {"x": 1}), (2, None)]
    batch = from_file([{"a": one}, {"a": None}, {"a": []}], columns())
    found = seen(batch, columns(column(6, "y", "int", **{"initial-default": 7})))
    both = [{"x": 1, "y": 7}, None]
    assert found == [{"a": both if place == "element" else [(1, both[0]), (2, None)]}, {"a": None}, {"a": []}]


def test_a_member_without_an_id_is_refused() -> None:
    batch = from_file([{"a": {"x": 1}}], schema(column(1, "a", schema(column(2, "x", "int")))))
    plain = pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))
    batch = pa.RecordBatch.from_arrays([plain], schema=pa.schema([batch.schema.field(0).with_type(plain.type)]))
    with pytest.raises(UnsupportedTableError, match="member x without an id"):
        seen(batch, schema(column(1, "a", schema(column(2, "x", "int")))))


@pytest.mark.parametrize(("was", "now", "value"), [("int", "long", 5), ("float", "double", 0.5), ("decimal(5,2)", "decimal(9,2)", None)])  # fmt: skip
def test_a_column_that_was_widened_keeps_its_values(was: str, now: str, value: Any) -> None:
    batch = from_file([{"a": value}], schema(column(1, "a", was)))
    assert seen(batch, schema(column(1, "a", now))) == [{"a": value}]


@pytest.mark.parametrize(("was", "now"), [("long", "int"), ("string", "binary"), ("date", "timestamp"), ("timestamp", "timestamptz")])  # fmt: skip
def test_what_cannot_be_turned_exactly_is_refused(was: str, now: str) -> None:
    batch = from_file([{"a": None}], schema(column(1, "a", was)))
    with pytest.raises(UnsupportedTableError, match="exactly"):
        seen(batch, schema(column(1, "a", now)))


@pytest.mark.parametrize("kind", ["variant", "unknown", "geometry", "geography(srid:4326)"])
def test_types_that_are_not_written_exactly_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedTableError, match=re.escape(kind)):
        arrow_schema(schema(column(1, "a", kind)))


def test_uuids_of_pyiceberg_are_the_same_bytes() -> None:
    """They come as a type of their own, also within lists."""
    uuids = pa.array([b"0" * 16, None], pa.binary(16)).cast(pa.uuid())
    lists = pa.ListArray.from_arrays(
        [0, 2, 2], uuids, type=pa.list_(pa.field("element", pa.uuid(), metadata={b"PARQUET:field_id": b"3"}))
    )
    fields = [
        pa.field(n, a.type, metadata={b"PARQUET:field_id": i}) for n, a, i in (("u", uuids, b"1"), ("l", lists, b"2"))
    ]
    batch = pa.RecordBatch.from_arrays([uuids, lists], schema=pa.schema(fields))
    columns = schema(column(1, "u", "uuid"), column(2, "l", {"type": "list", "element-id": 3, "element": "uuid"}))
    assert seen(batch, columns) == [{"u": b"0" * 16, "l": [b"0" * 16, None]}, {"u": None, "l": []}]


def test_a_required_column_that_a_file_lacks_is_not_made_up() -> None:
    batch = from_file([{"a": 1}], schema(column(1, "a", "long")))
    with pytest.raises(UnsupportedTableError, match="lacks the column b"):
        seen(batch, schema(column(2, "b", "long", required=True)))


@pytest.mark.parametrize(
    ("kind", "stored", "value"),
    [
        ("long", 5, 5),
        ("date", 1, dt.date(1970, 1, 2)),
        ("timestamp", 1, dt.datetime(1970, 1, 1, microsecond=1)),
        ("decimal(9,2)", "1.50", Decimal("1.50")),
        ("binary", "ab", b"\xab"),
        ("string", None, None),
        ("boolean", True, True),
    ],
)
def test_a_column_that_only_the_partition_tells_is_told_by_it(kind: str, stored: Any, value: Any) -> None:
    """Before its initial default, which is for files whose partition does not tell."""
    batch = from_file([{"a": 1}], schema(column(1, "a", "long")))
    now = schema(column(2, "b", kind))
    absent = Absent({2: pa.scalar(None, pa.int64())}, partition_constants(now, {2: stored}))
    assert projected(batch, list(arrow_schema(now)), absent).to_pylist() == [{"b": value}]


POINTS = st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-5, 5), "y": st.none() | st.text(max_size=3)})
ROWS = st.fixed_dictionaries(
    {
        "p": POINTS,
        "l": st.none() | st.lists(POINTS, max_size=3),
        "ll": st.none() | st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2), max_size=3),
        "m": st.none() | st.dictionaries(st.text(max_size=2), POINTS, max_size=2),
    }
)
NESTED = schema(
    column(1, "p", point(0)),
    column(2, "l", {"type": "list", "element-id": 7, "element": point(10)}),
    column(3, "ll", {"type": "list", "element-id": 8, "element": {"type": "list", "element-id": 9, "element": "int"}}),
    column(4, "m", {"type": "map", "key-id": 40, "key": "string", "value-id": 41, "value": point(20)}),
)


def renamed(kind: Any) -> Any:
    """The same type with other names for its members, and numbers widened."""
    if isinstance(kind, str):
        return "long" if kind == "int" else kind
    if kind["type"] == "struct":
        return {
            **kind,
            "fields": [{**f, "name": f["name"] + "_now", "type": renamed(f["type"])} for f in kind["fields"]],
        }
    if kind["type"] == "list":
        return {**kind, "element": renamed(kind["element"])}
    return {**kind, "value": renamed(kind["value"])}


def with_new_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {f"{name}_now": with_new_names(one) for name, one in value.items()}
    return [with_new_names(one) for one in value] if isinstance(value, list) else value


@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=8), st.integers(0, 3))
def test_null_is_not_empty_at_any_depth(rows: list[dict[str, Any]], skipped: int) -> None:
    """As written, under other names and wider types, and for a window on the rows."""
    batch = from_file(rows, NESTED).slice(min(skipped, len(rows)))
    expected = batch.to_pylist()
    assert seen(batch, NESTED) == expected
    now = schema(*({**f, "type": renamed(f["type"])} for f in NESTED["fields"]))
    for found, row in zip(seen(batch, now), expected, strict=True):
        assert found["p"] == with_new_names(row["p"])
        assert found["l"] == with_new_names(row["l"])
        assert found["ll"] == row["ll"]
        assert found["m"] == (None if row["m"] is None else [(key, with_new_names(one)) for key, one in row["m"]])
