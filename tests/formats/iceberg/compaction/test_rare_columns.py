"""Columns that few tables have: members of structs that deletes go by, nanoseconds, times in the outdated form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestampType

from lakewarden.formats.iceberg.data import row_groups
from lakewarden.formats.iceberg.data.columns import FIELD_ID
from lakewarden.formats.iceberg.data.order import COPIED, ENCODED
from tests.formats.iceberg.compaction.bench import Bench
from tests.formats.iceberg.data.copying import Group, rows_in, schema_of, told
from tests.support.lakes import local_path

INNER = StructType(NestedField(4, "x", LongType()), NestedField(5, "y", StringType()))
COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", INNER), NestedField(3, "at", TimestampType()))


def numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number).encode()})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.make(COLUMNS)
    schema = found.table.schema().as_arrow()
    for first in (0, 4):
        structs = [{"x": first, "y": "a"}, {"x": None, "y": "b"}, None, {"x": first + 3, "y": None}]
        rows = [{"id": first + n, "s": one, "at": None} for n, one in enumerate(structs)]
        found.table.append(pa.Table.from_pylist(rows, schema=schema))
    return found


def deleted_by(bench: Bench, kind: pa.DataType, rows: list[Any], *ids: int) -> list[int]:
    """The ids of the rows that are left of ids 0 to 7."""
    bench.add_delete({("s", 2): pa.array(rows, kind)}, bench.live()[0], equality_ids=list(ids))
    landed = bench.compact(bench.live())
    assert landed.dropped == {}, landed.dropped
    return [row[0] for row in bench.rows()]


def test_a_delete_by_a_member_of_a_struct(bench: Bench) -> None:
    kind = pa.struct([numbered("x", pa.int64(), 4)])
    assert deleted_by(bench, kind, [{"x": 0}, {"x": 7}, {"x": 99}], 4) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("rows", [[{"x": None}], [None]])
def test_a_missing_struct_has_no_member(bench: Bench, rows: list[Any]) -> None:
    """Null is equal to null: of a member that is null, and of one whose struct is."""
    assert deleted_by(bench, pa.struct([numbered("x", pa.int64(), 4)]), rows, 4) == [0, 3, 4, 7]


def test_a_delete_by_two_members(bench: Bench) -> None:
    kind = pa.struct([numbered("x", pa.int64(), 4), numbered("y", pa.string(), 5)])
    rows = [{"x": 0, "y": "a"}, {"x": 4, "y": "b"}, {"x": None, "y": "b"}]
    assert deleted_by(bench, kind, rows, 4, 5) == [2, 3, 4, 6, 7]


def test_a_delete_by_what_is_in_a_list_is_refused(bench: Bench) -> None:
    kind = pa.list_(numbered("element", pa.struct([numbered("x", pa.int64(), 4)]), 9))
    bench.add_delete({("s", 2): pa.array([[{"x": 0}]], kind)}, bench.live()[0], equality_ids=[4])
    landed = bench.compact(bench.live())
    assert "within a list" in landed.dropped["g0"]
    assert len(bench.live()) == 2


def test_times_in_the_outdated_form_are_refused(bench: Bench) -> None:
    for one in bench.live():
        path = local_path(one.path)
        pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True, store_schema=False)
    landed = bench.compact(bench.live())
    assert "stores times in an outdated form" in landed.dropped["g0"]
    assert len(bench.live()) == 2


@pytest.mark.parametrize("way", [COPIED, ENCODED])
def test_nanoseconds_are_carried_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(row_groups, "LEAST_AVERAGE", 0)
    group = Group(tmp_path, schema_of(("n", "timestamp_ns"), ("z", "timestamptz_ns")))
    values = [[-(2**63) + 1, 5, None], [1_700_000_000_123_456_789, 2**63 - 1, 0]]
    for some in values:
        columns = [pa.array(some, pa.int64()).cast(field.type) for field in group.schema]
        group.write(pa.Table.from_arrays(columns, schema=group.schema))
    group.told_by_manifests()
    result = group.rewritten() if way == COPIED else group.encoded()
    assert (result.code, result.way) == (None, way)
    (file,) = result.files
    table = pq.read_table(local_path(file.path))
    assert [table[name].cast(pa.int64()).to_pylist() for name in ("n", "z")] == [[*values[0], *values[1]]] * 2
    assert table.schema.field("z").type == pa.timestamp("ns", "UTC")
    least, most = (-(2**63) + 1).to_bytes(8, "little", signed=True).hex(), (2**63 - 1).to_bytes(8, "little").hex()
    assert (file.lower, file.upper, file.null_counts) == ({1: least, 2: least}, {1: most, 2: most}, {1: 1, 2: 1})
    assert rows_in(result) == group.rows()
    assert told(result) == told(group.encoded())
