"""Deletes in every reach they may have: those that still delete stay, those that were applied do not come undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType

from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS
from lakewarden.formats.iceberg.manifests.files import DELETES
from tests.formats.iceberg.compaction.bench import POSITION, Bench

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def some(*rows: tuple[int, str]) -> pa.Table:
    return pa.table({"id": pa.array([row[0] for row in rows], pa.int64()), "part": [row[1] for row in rows]})


def longs(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64())


def test_a_delete_of_another_partition_stays_though_a_manifest_of_both_was_read(bench: Bench) -> None:
    """An old file of `b` is in a manifest of its own, which nobody had to read to rewrite `a`."""
    bench.make(COLUMNS, BY_PART)
    bench.table.append(some((1, "b")))
    old = bench.live()[0]
    deletion = bench.add_delete({("id", 1): longs(1)}, old)
    bench.table.append(some((2, "a"), (3, "b")))
    bench.table.append(some((4, "a")))
    landed = bench.compact([one for one in bench.live() if one.file["partition"] == {"part": "a"}])
    assert landed.groups == ["g0"]
    assert [one.path for one in bench.live(DELETES)] == [deletion]
    bench.compact([one for one in bench.live() if one.file["partition"] == {"part": "b"}], run="next")
    assert bench.rows() == [(2, "a"), (3, "b"), (4, "a")]


def test_a_spec_whose_every_field_was_dropped_deletes_everywhere(bench: Bench) -> None:
    """As tables of version 1 have it: a dropped field stays as `void`. Readers take such a spec for none."""
    bench.make(COLUMNS, BY_PART)
    bench.table.append(some((1, "a"), (2, "a")))
    bench.change(_void)
    bench.table.append(some((3, "a")))
    void = next(one for one in bench.live() if one.spec == 1)
    deletion = bench.add_delete({("id", 1): longs(1)}, void)
    # The delete reaches the old file, so rewriting what is in its own spec does not end it.
    bench.compact([void], run="first")
    assert [one.path for one in bench.live(DELETES)] == [deletion]
    bench.compact([one for one in bench.live() if one.spec == 0], run="second")
    bench.compact([one for one in bench.live() if one.spec == 1], run="third")
    assert bench.rows() == [(2, "a"), (3, "a")]


def _void(document: dict[str, Any]) -> None:
    fields = [{"source-id": 2, "field-id": 1000, "name": "part", "transform": "void"}]
    document["partition-specs"] = [*document["partition-specs"], {"spec-id": 1, "fields": fields}]
    document["default-spec-id"] = 1


def test_position_deletes_that_name_their_file_apply_whatever_their_partition(bench: Bench) -> None:
    """PyIceberg and Iceberg's own library find them by the name alone."""
    bench.make(COLUMNS, BY_PART)
    bench.table.append(some((1, "a"), (2, "a")))
    bench.table.append(some((3, "b")))
    first = next(one for one in bench.live() if one.file["partition"] == {"part": "a"})
    other = next(one for one in bench.live() if one.file["partition"] == {"part": "b"})
    columns = {("file_path", FILE_PATH): pa.array([first.path]), ("pos", POS): longs(0)}
    bench.add_delete(columns, other, POSITION, referenced_data_file=first.path)
    before = bench.rows()
    assert before == [(2, "a"), (3, "b")]
    assert bench.compact([first]).groups == ["g0"]
    assert bench.rows() == before


def test_a_delete_by_a_member_that_was_dropped_is_refused(bench: Bench) -> None:
    """In the data file the member is within its struct: looked for as a column it would be missing, and delete nothing."""
    inner = StructType(NestedField(4, "x", LongType()), NestedField(5, "y", LongType()))
    bench.make(Schema(NestedField(1, "id", LongType()), NestedField(3, "s", inner)))
    bench.table.append(pa.table({"id": longs(1, 2), "s": [{"x": 7, "y": 0}, {"x": 8, "y": 0}]}))
    fields = {field.name: field.field_id for field in bench.table.schema().find_field("s").field_type.fields}  # type: ignore[union-attr]
    bench.add_delete({("x", fields["x"]): longs(7)}, bench.live()[0])
    with bench.table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column(("s", "x"))
    landed = bench.compact(bench.live())
    assert landed.groups == ()
    assert "no schema has as one of its own" in landed.dropped["g0"]


def test_a_delete_by_a_column_that_nobody_knows_is_refused(bench: Bench) -> None:
    bench.make(COLUMNS)
    bench.table.append(some((1, "a")))
    bench.add_delete({("ghost", 77): longs(1)}, bench.live()[0])
    landed = bench.compact(bench.live())
    assert "no schema has as one of its own" in landed.dropped["g0"]


def test_a_delete_by_a_dropped_column_goes_by_its_default_in_files_from_before_it(bench: Bench) -> None:
    bench.make(COLUMNS, version=2)
    bench.table.append(some((1, "a"), (2, "b")))
    bench.change(_came_and_went)
    bench.add_delete({("n", 3): pa.array([7], pa.int32())}, bench.live()[0])
    landed = bench.compact(bench.live())
    assert landed.groups == ["g0"]
    assert bench.live() == []


def _came_and_went(document: dict[str, Any]) -> None:
    first = document["schemas"][0]
    more = {"id": 3, "name": "n", "type": "int", "required": False, "initial-default": 7}
    document["schemas"] = [first, {**first, "schema-id": 1, "fields": [*first["fields"], more]}]
    document["last-column-id"] = 3


@pytest.mark.parametrize("key", [None, 5])
def test_deletes_by_a_widened_and_renamed_column(bench: Bench, key: int | None) -> None:
    """The delete was written when the column was an int of another name."""
    from pyiceberg.types import IntegerType

    bench.make(Schema(NestedField(1, "id", IntegerType()), NestedField(2, "part", StringType())))
    bench.table.append(pa.table({"id": pa.array([5, None, 6], pa.int32()), "part": ["x", "y", "z"]}))
    bench.add_delete({("id", 1): pa.array([key], pa.int32())}, bench.live()[0])
    with bench.table.update_schema() as change:
        change.update_column("id", LongType())
        change.rename_column("id", "number")
    bench.table.append(pa.table({"number": longs(5, None), "part": ["again", "again"]}))
    assert bench.compact(bench.live()).groups == ["g0"]
    expected = [(5, "x"), (None, "y"), (6, "z"), (5, "again"), (None, "again")]
    assert bench.rows() == sorted((row for row in expected if row[0] != key or row[1] == "again"), key=repr)
    assert bench.live(DELETES) == []
