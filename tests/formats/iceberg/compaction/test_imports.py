"""Files that were imported from Hive: no ids, and no column for what the directory says. They are read by name, or left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, ListType, LongType, NestedField, StringType, StructType

from lakewarden.formats.iceberg.data.names import NAME_MAPPING
from tests.formats.iceberg.compaction.bench import NAME, Bench
from tests.support.lakes import local_path

POINT = StructType(NestedField(6, "x", LongType()))
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "day", DateType()),
    NestedField(3, "places", ListType(5, POINT, element_required=False)),
    NestedField(4, "note", StringType()),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
ELEMENT = {"field-id": 5, "names": ["element"], "fields": [{"field-id": 6, "names": ["x", "old_x"]}]}
MAPPING: list[dict[str, Any]] = [
    {"field-id": 1, "names": ["id", "ID"]},
    {"field-id": 2, "names": ["day"]},
    {"field-id": 3, "names": ["places"], "fields": [ELEMENT]},
    {"field-id": 4, "names": ["note"]},
]


def imported(tmp_path: Path, mapping: Any) -> Bench:
    """Two files of one day, as Hive wrote them: other names, no ids, no day, a column that the table does not have."""
    bench = Bench(tmp_path)
    properties = {"format-version": "2", NAME_MAPPING: mapping if isinstance(mapping, str) else json.dumps(mapping)}
    properties = properties if mapping is not None else {"format-version": "2"}
    table = bench.catalog.create_table(NAME, SCHEMA, partition_spec=BY_DAY, properties=properties)
    for number in range(2):
        days = pa.array([19_000] * 2, pa.int32()).cast(pa.date32())
        table.append(pa.table({"id": [number, number + 10], "day": days}))
    for number, live in enumerate(bench.live()):
        element = pa.field("array_element", pa.struct([("old_x", pa.int64())]))
        rows = {
            "ID": pa.array([number, number + 10]),
            "places": pa.array([[{"old_x": number}, None], None], pa.list_(element)),
            "other": pa.array(["not", "ours"]),
        }
        pq.write_table(pa.table(rows), local_path(live.path), store_schema=False)
    return bench


def test_columns_are_found_by_name_and_the_partitions_value_is_written_down(tmp_path: Path) -> None:
    bench = imported(tmp_path, MAPPING)
    landed = bench.compact(bench.live())
    assert landed.dropped == {}
    assert (landed.files_removed, landed.files_added) == (2, 1)
    (one,) = bench.live()
    found = pq.ParquetFile(local_path(one.path)).read()
    assert found.column_names == ["id", "day", "places", "note"]
    assert sorted(found["id"].to_pylist()) == [0, 1, 10, 11]
    assert {str(day) for day in found["day"].to_pylist()} == {"2022-01-08"}
    assert sorted(map(repr, found["places"].to_pylist())) == sorted(
        map(repr, [[{"x": 0}, None], None, [{"x": 1}, None], None])
    )
    assert found["note"].null_count == 4


@pytest.mark.parametrize(
    ("mapping", "why"),
    [
        (None, "have no ids"),
        ([*MAPPING[:2], {"field-id": 3, "names": ["places"], "fields": []}], "member element"),
        ([*MAPPING[:2], {**MAPPING[2], "fields": [{**ELEMENT, "fields": []}]}], "member old_x"),
    ],
)
def test_what_no_mapping_names_is_left_alone(tmp_path: Path, mapping: Any, why: str) -> None:
    bench = imported(tmp_path, mapping)
    before = {live.path for live in bench.live()}
    landed = bench.compact(bench.live())
    assert why in landed.dropped["g0"]
    assert {live.path for live in bench.live()} == before
