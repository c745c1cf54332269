"""A table's sort order is kept: rows of new files come in it, and their entries say so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.formats.iceberg.compaction.bench import NAME, Bench
from tests.support.lakes import local_path

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
ORDER = SortOrder(
    SortField(2, TruncateTransform(1), SortDirection.DESC), SortField(1, IdentityTransform(), SortDirection.ASC)
)


def test_rows_come_in_the_tables_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    table = bench.catalog.create_table(NAME, SCHEMA, sort_order=ORDER, properties={"format-version": "2"})
    for first in (0, 5, 10):
        ids = range(first, first + 5)
        table.append(pa.table({"id": list(ids), "name": [None if n % 4 == 0 else f"{'abc'[n % 3]}{n}" for n in ids]}))
    before = bench.rows()
    landed = bench.compact(bench.live())
    assert (landed.files_removed, landed.files_added) == (3, 1)
    assert bench.rows() == before
    (one,) = bench.live()
    assert one.file["sort_order_id"] == bench.document["default-sort-order-id"] != 0
    rows = pq.read_table(local_path(one.path)).to_pylist()
    # Descending by the first letter, nulls last; then by id.
    expected = sorted(rows, key=lambda row: (row["name"] is None, -ord((row["name"] or "\0")[0]), row["id"]))
    assert rows == expected


def test_files_of_an_unsorted_table_are_not_called_sorted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    table = bench.make(SCHEMA)
    for number in range(2):
        table.append(pa.table({"id": [number], "name": ["x"]}))
    bench.compact(bench.live())
    (one,) = bench.live()
    assert not one.file["sort_order_id"]
