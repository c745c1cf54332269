"""Partitions whose values were widened with their column: manifests of both ages, and files of both in one commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS
from lakewarden.formats.iceberg.manifests.files import DELETES
from tests.formats.iceberg.compaction.bench import POSITION, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two files from before and two from after, of two rows each."""
    found = Bench(tmp_path)
    found.make(
        Schema(NestedField(1, "n", IntegerType())), PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "n"))
    )
    for _ in range(2):
        found.table.append(pa.table({"n": pa.array([1, 1], pa.int32())}))
    with found.table.update_schema() as change:
        change.update_column("n", LongType())
    for _ in range(2):
        found.table.append(pa.table({"n": pa.array([2**40, 2**40], pa.int64())}))
    return found


def groups(bench: Bench) -> list[list[LiveFile]]:
    return [[one for one in bench.live() if one.file["partition"] == {"n": n}] for n in (1, 2**40)]


def test_groups_from_before_and_after_land_together(bench: Bench) -> None:
    assert bench.compact(*groups(bench)).groups == ["g0", "g1"]
    assert bench.rows() == [(1,)] * 4 + [(2**40,)] * 4
    assert len(bench.live()) == 2


def test_deletes_that_came_meanwhile_are_of_the_partitions_that_the_files_are_of(bench: Bench) -> None:
    """Whichever manifest of deletes is followed: one from before has no room for values from after."""
    before, after = groups(bench)
    ready = bench.prepare(before, after)
    answers = bench.rewrite(ready)
    for one in (before[0], after[0]):
        columns = {("file_path", FILE_PATH): pa.array([one.path]), ("pos", POS): pa.array([0], pa.int64())}
        bench.add_delete(columns, one, POSITION, referenced_data_file=one.path)
    assert bench.commit(ready, answers).groups == ["g0", "g1"]
    assert bench.rows() == [(1,)] * 3 + [(2**40,)] * 3
    assert {one.partition for one in bench.live(DELETES)} == {before[0].partition, after[0].partition}
