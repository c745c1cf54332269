"""Partitions whose values were widened with their column: manifests of both ages, and files of both in one commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from tests.formats.iceberg.compaction.bench import Bench


def test_groups_from_before_and_after_land_together(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.make(
        Schema(NestedField(1, "n", IntegerType())), PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "n"))
    )
    for _ in range(2):
        bench.table.append(pa.table({"n": pa.array([1], pa.int32())}))
    with bench.table.update_schema() as change:
        change.update_column("n", LongType())
    for _ in range(2):
        bench.table.append(pa.table({"n": pa.array([2**40], pa.int64())}))
    groups = [[one for one in bench.live() if one.file["partition"] == {"n": n}] for n in (1, 2**40)]
    assert bench.compact(*groups).groups == ["g0", "g1"]
    assert bench.rows() == [(1,), (1,), (2**40,), (2**40,)]
    assert len(bench.live()) == 2
