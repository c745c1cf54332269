"""Rows come back in the table's order, all of them, however small the memory is."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data.columns import arrow_schema
from lakewarden.formats.iceberg.data.sort import Sorter, check_sortable, sorted_columns
from lakewarden.model.errors import UnsupportedTableError
from tests.formats.iceberg.data.test_projection import column, schema

COLUMNS = schema(
    column(1, "n", "long"),
    column(2, "f", "double"),
    column(3, "s", schema(column(4, "t", "string"))),
    column(5, "at", "timestamp"),
    column(6, "b", "boolean"),
    column(7, "u", "uuid"),
)
FIELDS = arrow_schema(COLUMNS)
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-5, 5),
        "f": st.none() | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, -1.5]),
        "s": st.none() | st.fixed_dictionaries({"t": st.none() | st.text(max_size=3)}),
        "at": st.none() | st.datetimes().map(lambda at: at.replace(fold=0)),
        "b": st.none() | st.booleans(),
        "u": st.none() | st.binary(min_size=16, max_size=16),
    }
)


def by(source: int, transform: str = "identity", direction: str = "asc", nulls: str = "nulls-first") -> dict[str, Any]:
    return {"source-id": source, "transform": transform, "direction": direction, "null-order": nulls}


def in_order(batches: list[list[dict[str, Any]]], fields: list[dict[str, Any]], memory: int) -> list[dict[str, Any]]:
    with TemporaryDirectory() as scratch:
        sorter = Sorter({"order-id": 1, "fields": fields}, FIELDS, Path(scratch), memory, 8)
        for rows in batches:
            sorter.add(pa.RecordBatch.from_pylist(rows, schema=FIELDS))
        return [row for batch in sorter.rows() for row in batch.to_pylist()]


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def number(value: float) -> int:
    """Where a floating-point number stands in the specification's order."""
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else bits ^ (2**63 - 1)


def value_of(row: dict[str, Any], field: dict[str, Any]) -> Any:
    name = {1: "n", 2: "f", 4: "s", 5: "at", 6: "b", 7: "u"}[field["source-id"]]
    value = row[name] if name != "s" else (row["s"] or {}).get("t")
    if value is None:
        return None
    transform = field["transform"]
    if transform == "truncate[2]":
        return value[:2].encode() if isinstance(value, str) else value // 2
    if transform in ("year", "month", "day", "hour"):
        parts = {"year": 1, "month": 2, "day": 3, "hour": 4}[transform]
        return (value.year, value.month, value.day, value.hour)[:parts]
    return number(value) if name == "f" else value.encode() if isinstance(value, str) else value


SORTS = st.lists(
    st.builds(
        by,
        st.sampled_from([1, 2, 4, 5, 6, 7]),
        st.just("identity"),
        st.sampled_from(["asc", "desc"]),
        st.sampled_from(["nulls-first", "nulls-last"]),
    )
    | st.builds(by, st.just(5), st.sampled_from(["year", "month", "day", "hour"]), st.sampled_from(["asc", "desc"]))
    | st.builds(by, st.sampled_from([1, 4]), st.just("truncate[2]"), st.sampled_from(["asc", "desc"])),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(ROWS, max_size=8), max_size=6), SORTS, st.sampled_from([1, 400, 1 << 20]))
def test_every_row_comes_back_in_order(
    batches: list[list[dict[str, Any]]], fields: list[dict[str, Any]], memory: int
) -> None:
    found = in_order(batches, fields, memory)
    assert counted(found) == counted(row for rows in batches for row in rows)
    for before, after in pairwise(found):
        for field in fields:
            one, other = value_of(before, field), value_of(after, field)
            if one == other:
                continue
            if one is None or other is None:
                assert (one is None) == (field["null-order"] == "nulls-first")
            else:
                assert one < other if field["direction"] == "asc" else one > other
            break


def test_what_is_sorted_fits_no_memory(tmp_path: Path) -> None:
    """More rows than are ever held at once: every piece is on disk, and the order holds across pieces."""
    fields = arrow_schema(schema(column(1, "n", "long")))
    sorter = Sorter({"order-id": 1, "fields": [by(1)]}, fields, tmp_path, 1 << 16, 1 << 12)
    count = 200_000
    for start in range(0, count, 10_000):
        values = [(n * 7919) % count for n in range(start, start + 10_000)]
        sorter.add(pa.record_batch([pa.array(values, pa.int64())], schema=fields))
    assert len(list(tmp_path.iterdir())) > 10
    found = pa.Table.from_batches(list(sorter.rows())).column(0)
    assert found.to_pylist() == list(range(count))


@pytest.mark.parametrize("field", [by(1, "bucket[4]"), by(99), by(3), by(2, "truncate[2]"), by(1, "year")])
def test_what_is_not_sorted_by_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedTableError, match="sort order"):
        check_sortable({"order-id": 1, "fields": [field]}, FIELDS)


def test_columns_within_structs_keep_their_names() -> None:
    assert sorted_columns({"order-id": 1, "fields": [by(4), by(1)]}, FIELDS) == ("s.t", "n")
