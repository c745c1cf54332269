"""A data file that was added while it was in the table already: readers show its rows twice, and so they must after a compaction."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS
from lakewarden.model.compaction import GroupFiles
from tests.formats.iceberg.compaction.bench import POINTER, POSITION, Bench
from tests.support.lakes import local_path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.make(Schema(NestedField(1, "id", LongType())))
    for number in (1, 2, 3):
        found.table.append(pa.table({"id": pa.array([number], pa.int64())}))
    return found


def in_one_manifest(bench: Bench) -> None:
    path = f"file://{bench.base}/copy.parquet"
    shutil.copy(local_path(bench.live()[0].path), local_path(path))
    with bench.table.transaction() as change, change.update_snapshot().fast_append() as adding:
        file = parquet_file_to_data_file(bench.table.io, change.table_metadata, path)
        adding.append_data_file(file)
        adding.append_data_file(file)


def in_two_manifests(bench: Bench) -> None:
    bench.table.add_files([bench.live()[0].path], check_duplicate_files=False)


@pytest.mark.parametrize("added", [in_one_manifest, in_two_manifests])
@pytest.mark.parametrize("named", ["twice", "once"])
def test_its_rows_are_as_many_as_before(bench: Bench, added, named: str) -> None:  # type: ignore[no-untyped-def]
    added(bench)
    live = bench.live()
    before = bench.rows()
    assert len(before) == len(live) > len(set(before))
    some = live if named == "twice" else list({one.path: one for one in live}.values())
    landed = bench.prepare(some)
    if named == "twice" or landed.dropped:
        assert "in the table more than once" in landed.dropped["g0"]
    else:
        bench.commit(landed, bench.rewrite(landed))
    assert bench.rows() == before


def test_one_that_is_added_again_while_it_is_rewritten(bench: Bench) -> None:
    ready = bench.prepare(bench.live())
    answers = bench.rewrite(ready)
    in_two_manifests(bench)
    before = bench.rows()
    bench.commit(ready, answers)
    assert bench.rows() == before


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("read", ["before", "after"])
def test_rows_that_are_deleted_from_both_stay_deleted(bench: Bench, read: str, newest: bool) -> None:
    """Deletes that name the file go with one of its entries only if there is no other, in whichever manifest."""
    files = sorted(bench.live(), key=lambda one: one.sequence, reverse=newest)
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    bench.table.add_files([files[0].path], check_duplicate_files=False)
    places = {("file_path", FILE_PATH): pa.array([files[0].path]), ("pos", POS): pa.array([0], pa.int64())}
    bench.add_delete(places, files[0], POSITION, referenced_data_file=files[0].path)
    before = bench.rows()
    assert len(before) == 2
    if read == "before":
        bench.commit(ready, answers)
    else:
        bench.compact(files)
    assert bench.rows() == before


def test_one_that_is_in_two_partitions(tmp_path: Path) -> None:
    """A group is of one partition: the entry of the other one is not taken in its place."""
    bench = Bench(tmp_path)
    by_part = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    bench.make(Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType())), by_part)
    for part in "ab":
        bench.table.append(pa.table({"id": pa.array([1], pa.int64()), "part": [part]}))

    def of(part: str) -> LiveFile:
        return next(one for one in bench.live() if one.file["partition"]["part"] == part)

    wanted = GroupFiles("g0", (of("a").path,), partition=of("b").partition)
    ready = bench.compactor.prepare(POINTER, bench.document["table-uuid"], [wanted], 1 << 29, "run")
    assert not ready.orders
    assert ready.dropped
