"""A run that goes on after it was stopped: what it has committed is not committed again, and what it had to leave is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.compaction import carried
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS
from tests.formats.iceberg.compaction.bench import POSITION, Bench

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


def test_a_group_that_could_not_land_is_committed_by_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.make(COLUMNS, BY_PART)
    for first in (0, 2):
        bench.table.append(pa.table({"id": pa.array([first, first + 1], pa.int64()), "part": ["a", "b"]}))
    groups = [[one for one in bench.live() if one.file["partition"] == {"part": part}] for part in "ab"]
    prepared = bench.prepare(*groups)
    answers = bench.rewrite(prepared)
    path = groups[0][0].path
    columns = {("file_path", FILE_PATH): pa.array([path]), ("pos", POS): pa.array([0], pa.int64())}
    bench.add_delete(columns, groups[0][0], POSITION)
    monkeypatch.setattr(carried, "MOST_BYTES", 0)
    landed = bench.commit(prepared, answers)
    assert landed.groups == ["g1"]
    rows, snapshots = bench.rows(), len(bench.document["snapshots"])
    assert len(rows) == 3
    again = bench.prepare(*groups)
    (made,) = again.made
    assert (made.snapshot, made.groups, list(again.orders)) == (landed.snapshot, ["g1"], ["g0"])
    counted = (made.files_removed, made.files_added, made.bytes_removed, made.bytes_added)
    assert counted == (landed.files_removed, landed.files_added, landed.bytes_removed, landed.bytes_added)
    assert min(counted) > 0
    answers = bench.rewrite(again)
    assert bench.commit(again, answers).groups == ["g0"]
    assert (bench.rows(), len(bench.live()), len(bench.document["snapshots"])) == (rows, 2, snapshots + 1)
    # The answer was lost, and the same is asked for once more.
    assert bench.commit(again, answers).groups == ["g0"]
    assert len(bench.document["snapshots"]) == snapshots + 1
