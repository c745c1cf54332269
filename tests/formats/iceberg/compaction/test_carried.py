"""Rows that are deleted by position while their files are rewritten: the group lands, and they stay deleted."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.compaction import carried as carrying
from lakewarden.formats.iceberg.compaction.new_deletes import vector_file
from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS, vector_positions
from lakewarden.formats.iceberg.manifests.files import DELETES
from lakewarden.model.compaction import GroupFiles
from tests.formats.iceberg.compaction import bench as bench_module
from tests.formats.iceberg.compaction.bench import POINTER, POSITION, Bench
from tests.formats.iceberg.compaction.by_hand import rows_by_hand

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
ROWS = 10


@pytest.fixture(params=["encoded", "copied"])
def bench(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Four files of ten rows."""
    if request.param == "copied":
        monkeypatch.setattr("lakewarden.formats.iceberg.data.row_groups.LEAST_AVERAGE", 0)
    found = Bench(tmp_path)
    found.make(COLUMNS, BY_PART)
    for first in range(0, 4 * ROWS, ROWS):
        ids = pa.array(range(first, first + ROWS), pa.int64())
        found.table.append(pa.table({"id": ids, "part": ["a"] * ROWS}))
    return found


def delete(bench: Bench, *rows: tuple[LiveFile, int], named: bool = True) -> None:
    """One file of position deletes."""
    rows = tuple(sorted(rows, key=lambda row: (row[0].path, row[1])))
    paths, places = [one.path for one, _ in rows], [place for _, place in rows]
    columns = {("file_path", FILE_PATH): pa.array(paths), ("pos", POS): pa.array(places, pa.int64())}
    about = {"referenced_data_file": paths[0]} if named and len(set(paths)) == 1 else {}
    bench.add_delete(columns, rows[0][0], POSITION, **about)


def ids(bench: Bench) -> list[int]:
    found = sorted(row[0] for row in rows_by_hand(bench))
    assert found == sorted(row[0] for row in bench.rows()), "PyIceberg reads the same"
    return found


def test_a_group_lands_with_the_deletes_that_came_meanwhile(bench: Bench) -> None:
    files = sorted(bench.live(), key=lambda one: one.sequence)
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    delete(bench, (files[0], 0))
    delete(bench, (files[1], 3), (files[1], 9))
    delete(bench, (files[3], 9), (files[2], 0), named=False)
    expected = ids(bench)
    landed = bench.commit(ready, answers)
    assert (landed.groups, landed.dropped) == (["g0"], {})
    assert ids(bench) == expected == [n for n in range(40) if n not in (0, 13, 19, 20, 39)]
    snapshot = bench.document["snapshots"][-1]
    summary = snapshot["summary"]
    assert (summary["operation"], summary["added-position-deletes"], summary["removed-position-deletes"]) == ("replace", "5", "3")  # fmt: skip
    # What was about one file has gone with it; what was about several stays, as nobody here reads it whole.
    assert len(bench.live(DELETES)) == 2
    # The next one applies them.
    bench.compact(bench.live(), run="again")
    assert ids(bench) == expected


def test_deletes_that_were_applied_are_not_counted_twice(bench: Bench) -> None:
    """Places in new files are counted without the rows that are not there; a later delete may repeat what one said before."""
    draw = random.Random(4)
    files = sorted(bench.live(), key=lambda one: one.sequence)
    gone = {(number, place) for number in range(4) for place in draw.sample(range(ROWS), 3)}
    for number, place in gone:
        delete(bench, (files[number], place))
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    for number in range(4):
        for place in draw.sample(range(ROWS), 4):
            delete(bench, (files[number], place))
    expected = ids(bench)
    assert bench.commit(ready, answers).groups == ["g0"]
    assert ids(bench) == expected


def test_each_group_of_a_commit_carries_its_own(bench: Bench) -> None:
    """A row's place is counted in the file that it came to."""
    files = sorted(bench.live(), key=lambda one: one.sequence)
    ready = bench.prepare(*([one] for one in files))
    answers = bench.rewrite(ready)
    delete(bench, (files[0], 9), (files[1], 0))
    delete(bench, (files[2], 5))
    expected = ids(bench)
    assert len(bench.commit(ready, answers).groups) == 4
    assert ids(bench) == expected == [n for n in range(40) if n not in (9, 10, 25)]


@pytest.mark.parametrize("version", ["copied", "encoded"])
def test_a_group_that_became_several_files(tmp_path: Path, version: str) -> None:
    """A row's place is counted in the file that it came to, at the end of one and the beginning of the next as well."""
    bench = Bench(tmp_path)
    bench.make(COLUMNS, BY_PART)
    for first in range(0, 4000, 1000):
        ids = pa.array(range(first, first + 1000), pa.int64())
        bench.table.append(pa.table({"id": ids, "part": ["a"] * 1000}))
    with bench.table.transaction() as change:
        change.set_properties({"write.parquet.row-group-size-bytes": "4000"})
    files = sorted(bench.live(), key=lambda one: one.sequence)
    if version == "encoded":
        delete(bench, (files[0], 10), (files[0], 20))
    wanted = GroupFiles("g0", tuple(one.path for one in files))
    ready = bench.compactor.prepare(POINTER, bench.document["table-uuid"], [wanted], 4000, "run")
    answers = bench.rewrite(ready)
    delete(bench, *((one, place) for one in files for place in (0, 10, 999)))
    before = bench.rows()
    assert bench.commit(ready, answers).groups == ["g0"]
    assert len(bench.live()) > 1
    assert bench.rows() == before
    assert len(before) == 4000 - (12 if version == "copied" else 13)


def test_files_of_two_shapes_are_counted_in_their_order(tmp_path: Path) -> None:
    """Small files of one shape are read together, and those between them alone: rows keep their order all the same."""
    bench = Bench(tmp_path)
    bench.make(COLUMNS, BY_PART)
    for number in range(20):
        with bench.table.transaction() as change:
            change.set_properties({"write.parquet.compression-codec": "snappy" if number % 3 == 1 else "zstd"})
        ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        bench.table.append(pa.table({"id": ids, "part": ["a"] * ROWS}))
    files = sorted(bench.live(), key=lambda one: one.sequence)
    delete(bench, (files[4], 2))
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    delete(bench, *((one, place) for place, one in enumerate(files[:ROWS])))
    expected = bench.rows()
    assert len(expected) == 20 * ROWS - ROWS - 1
    assert bench.commit(ready, answers).groups == ["g0"]
    assert bench.rows() == expected


def test_a_delete_that_only_names_other_files_costs_nothing(bench: Bench) -> None:
    files = sorted(bench.live(), key=lambda one: one.sequence)
    ready = bench.prepare(files[:2])
    answers = bench.rewrite(ready)
    delete(bench, (files[2], 1), (files[3], 1), named=False)
    landed = bench.commit(ready, answers)
    assert landed.groups == ["g0"]
    assert "added-delete-files" not in bench.document["snapshots"][-1]["summary"]
    assert ids(bench) == [n for n in range(40) if n not in (21, 31)]


@pytest.mark.parametrize("why", ["deleted by value", "sorted"])
def test_nor_where_places_could_not_be_counted(bench: Bench, why: str) -> None:
    """A stream writes such deletes with every commit, and the group would never land."""
    if why == "sorted":
        with bench.table.update_sort_order() as change:
            change.desc("id", IdentityTransform())
    files = sorted(bench.live(), key=lambda one: one.sequence)
    if why == "deleted by value":
        bench.add_delete({("id", 1): pa.array([3], pa.int64())}, files[0])
    delete(bench, (files[1], 7))
    ready = bench.prepare(files[:2])
    answers = bench.rewrite(ready)
    delete(bench, (files[2], 1), (files[3], 1), named=False)
    expected = rows_by_hand(bench)
    landed = bench.commit(ready, answers)
    assert (landed.groups, landed.dropped) == (["g0"], {})
    assert rows_by_hand(bench) == expected


@pytest.mark.parametrize("by_value", [True, False])
def test_rows_that_are_brought_back_are_a_conflict(bench: Bench, by_value: bool) -> None:
    """A rewriting that has left them out cannot bring them back."""
    files = sorted(bench.live(), key=lambda one: one.sequence)
    if by_value:
        bench.add_delete({("id", 1): pa.array([5], pa.int64())}, files[0])
    else:
        delete(bench, (files[0], 5))
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)

    def forget(document: dict) -> None:  # type: ignore[type-arg]
        """As if a writer had committed the list of before the delete once more."""
        old, last = document["snapshots"][-2], document["snapshots"][-1]
        number = last["sequence-number"] + 1
        new = {**old, "snapshot-id": 77, "parent-snapshot-id": last["snapshot-id"], "sequence-number": number}
        document["snapshots"] = [*document["snapshots"], new]
        document["refs"] = {"main": {"type": "branch", "snapshot-id": 77}}
        document |= {"current-snapshot-id": 77, "last-sequence-number": number}

    bench.change(forget)
    landed = bench.commit(ready, answers)
    assert "brought back" in landed.dropped["g0"]
    assert ids(bench) == list(range(40))


def test_rows_that_were_deleted_by_value_are_not_counted_on(bench: Bench) -> None:
    files = sorted(bench.live(), key=lambda one: one.sequence)
    bench.add_delete({("id", 1): pa.array([3], pa.int64())}, files[0])
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    delete(bench, (files[0], 5))
    expected = rows_by_hand(bench)
    landed = bench.commit(ready, answers)
    assert "deleted by value" in landed.dropped["g0"]
    assert rows_by_hand(bench) == expected


def test_more_deletes_than_a_driver_should_read_are_a_conflict(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "MOST_BYTES", 10)
    files = bench.live()
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    delete(bench, (files[0], 5))
    expected = ids(bench)
    assert "more was deleted than" in bench.commit(ready, answers).dropped["g0"]
    assert ids(bench) == expected


def test_deletes_that_cannot_be_read_are_a_conflict(bench: Bench) -> None:
    files = bench.live()
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    delete(bench, (files[0], 5))
    path = bench.live(DELETES)[0].path.removeprefix("file://")
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:-9])
    assert "not as long as" in bench.commit(ready, answers).dropped["g0"]
    Path(path).write_bytes(whole)
    assert len(ids(bench)) == 39


def test_the_partition_is_said_in_the_words_of_the_manifest_that_is_followed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers spell names that Avro does not allow in their own ways, and deletes may be of another writer than the data."""
    files = sorted(bench.live(), key=lambda one: one.sequence)
    ready = bench.prepare(files)
    answers = bench.rewrite(ready)
    real = bench_module._with_fields

    def spelled(schema: dict, file: dict) -> dict:  # type: ignore[type-arg]
        made = real(schema, file)
        place = next(one for one in made["fields"] if one["name"] == "data_file")
        partition = next(one for one in place["type"]["fields"] if one["name"] == "partition")
        partition["type"]["fields"][0]["name"] = "p_x61rt"
        return made

    monkeypatch.setattr(bench_module, "_with_fields", spelled)
    columns = {("file_path", FILE_PATH): pa.array([files[0].path]), ("pos", POS): pa.array([5], pa.int64())}
    more = {"referenced_data_file": files[0].path, "partition": {"p_x61rt": "a"}}
    bench.add_delete(columns, files[0], POSITION, **more)
    expected = bench.rows()
    bench.commit(ready, answers)
    assert bench.rows() == expected
    assert {one.partition for one in (*bench.live(), *bench.live(DELETES))} == {files[0].partition}


def test_a_vector_is_what_others_read() -> None:
    places = np.array([0, 3, 70_000, 2**33], np.int64)
    made = vector_file("s3://b/f.parquet", places)
    at, length = made.said["content_offset"], made.said["content_size_in_bytes"]
    assert vector_positions(made.data[at : at + length], 4, "v").tolist() == places.tolist()
    small = vector_file("s3://b/f.parquet", places[:3])
    found = PuffinFile(small.data)
    assert found.footer.blobs[0].properties["referenced-data-file"] == "s3://b/f.parquet"
    assert found.to_vector()["s3://b/f.parquet"].to_pylist() == [0, 3, 70_000]
