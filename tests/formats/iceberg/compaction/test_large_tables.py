"""Tables with many manifests: only those are opened that can hold an input, or a delete for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.compaction import head
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS
from lakewarden.formats.iceberg.manifests import opened as manifests
from lakewarden.formats.iceberg.manifests.files import DELETES
from lakewarden.model.compaction import GroupFiles, Prepared
from tests.formats.iceberg.compaction.bench import POINTER, POSITION, Bench

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that were opened."""
    found: list[str] = []
    real = manifests.read_manifest

    def read(files: Any, row: Any) -> Any:
        found.append(str(row["manifest_path"]))
        return real(files, row)

    monkeypatch.setattr(manifests, "read_manifest", read)
    return found


def fill(bench: Bench, parts: str) -> None:
    for number, part in enumerate(parts):
        bench.table.append(pa.table({"id": pa.array([number], pa.int64()), "part": [part]}))


def prepare(bench: Bench, part: str, run: str = "run") -> Prepared:
    mine = [one for one in bench.live() if one.file["partition"].get("part", part) == part]
    group = GroupFiles("g0", tuple(one.path for one in mine), partition=mine[0].partition)
    return bench.compactor.prepare(POINTER, bench.document["table-uuid"], [group], 1 << 29, run)


@contextmanager
def counting(opened: list[str]) -> Iterator[list[str]]:
    opened.clear()
    found: list[str] = []
    yield found
    found.extend(opened)


def test_manifests_of_other_partitions_stay_closed(tmp_path: Path, opened: list[str]) -> None:
    bench = Bench(tmp_path)
    bench.make(COLUMNS, BY_PART)
    fill(bench, "abcdefghab")
    mine = [one for one in bench.live() if one.file["partition"] == {"part": "a"}]
    group = GroupFiles("g0", tuple(one.path for one in mine), partition=mine[0].partition)
    with counting(opened) as read:
        ready = bench.compactor.prepare(POINTER, bench.document["table-uuid"], [group], 1 << 29, "run")
    assert len(read) == 2
    with counting(opened) as read:
        assert bench.commit(ready, bench.rewrite(ready)).groups == ["g0"]
    assert read == []  # what was opened a moment ago is known
    assert [row[0] for row in bench.rows()] == list(range(10))


def test_manifests_that_are_too_new_stay_closed(tmp_path: Path, opened: list[str]) -> None:
    bench = Bench(tmp_path)
    bench.make(COLUMNS)
    fill(bench, "aaa")
    ready = bench.prepare(bench.live())
    answers = bench.rewrite(ready)
    fill(bench, "aaaaaaa")
    bench.compactor._opened = manifests.OpenedManifests()
    with counting(opened) as read:
        assert bench.commit(ready, answers).groups == ["g0"]
    assert len(read) == 3


def test_a_delete_for_all_partitions_goes_when_unread_manifests_are_newer(tmp_path: Path, opened: list[str]) -> None:
    """And stays while one of them may hold older data."""
    bench = Bench(tmp_path)
    bench.make(COLUMNS)
    fill(bench, "aa")
    bench.add_delete({("id", 1): pa.array([0], pa.int64())}, bench.live()[0])
    old = bench.live()
    fill(bench, "bbb")
    with counting(opened) as read:
        bench.compact(old[:1], run="first")
    assert len(bench.live(DELETES)) == 1
    with counting(opened) as read:
        bench.compact(old[1:], run="second")
    assert (len(bench.live(DELETES)), len(read) < 10) == (0, True)
    assert sorted(bench.rows()) == [(0, "b"), (1, "a"), (1, "b"), (2, "b")]


@pytest.mark.parametrize("added", ["nothing", "other rows", "the file again"])
def test_newer_manifests_alone_are_looked_through_for_a_second_entry(
    tmp_path: Path, opened: list[str], added: str
) -> None:
    """The plan has left out what was there twice; and only where a newer delete names a file does a newer entry of it matter."""
    bench = Bench(tmp_path)
    bench.make(COLUMNS)
    fill(bench, "aaaaaaaa")
    mine = sorted(bench.live(), key=lambda one: one.sequence)[2]
    group = GroupFiles("g0", (mine.path,), planned_from=bench.document["current-snapshot-id"])
    ready = bench.compactor.prepare(POINTER, bench.document["table-uuid"], [group], 1 << 29, "run")
    answers = bench.rewrite(ready)
    if added == "other rows":
        fill(bench, "a")
    elif added == "the file again":
        bench.table.add_files([mine.path], check_duplicate_files=False)
    places = {("file_path", FILE_PATH): pa.array([mine.path]), ("pos", POS): pa.array([0], pa.int64())}
    bench.add_delete(places, mine, POSITION, referenced_data_file=mine.path)
    before = bench.rows()
    bench.compactor._opened = manifests.OpenedManifests()
    with counting(opened) as read:
        landed = bench.commit(ready, answers)
    # That of the file, that of the deletes, and that of what was added.
    assert len(read) == (2 if added == "nothing" else 3)
    assert bool(landed.dropped) == (added == "the file again")
    assert bench.rows() == before


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "oldest"])
def test_the_older_entry_is_looked_for_where_the_newer_one_was_found(tmp_path: Path, newest: bool) -> None:
    bench = Bench(tmp_path)
    bench.make(COLUMNS)
    fill(bench, "aaa")
    mine = sorted(bench.live(), key=lambda one: one.sequence)[-1 if newest else 0]
    group = GroupFiles("g0", (mine.path,), planned_from=bench.document["current-snapshot-id"])
    bench.table.add_files([mine.path], check_duplicate_files=False)
    places = {("file_path", FILE_PATH): pa.array([mine.path]), ("pos", POS): pa.array([0], pa.int64())}
    bench.add_delete(places, mine, POSITION, referenced_data_file=mine.path)
    ready = bench.compactor.prepare(POINTER, bench.document["table-uuid"], [group], 1 << 29, "run")
    assert "more than once" in ready.dropped["g0"]


@pytest.mark.parametrize("changed", [False, True])
def test_a_commit_reads_the_list_again_only_if_the_table_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    bench = Bench(tmp_path)
    bench.make(COLUMNS, BY_PART)
    fill(bench, "aa")
    ready = prepare(bench, "a")
    answers = bench.rewrite(ready)
    if changed:
        fill(bench, "a")
    lists: list[int] = []
    real = head.read_list
    monkeypatch.setattr(head, "read_list", lambda *given: lists.append(1) or real(*given))  # type: ignore[func-returns-value]
    assert bench.commit(ready, answers).groups == ["g0"]
    assert bool(lists) == changed
    assert sorted(row[0] for row in bench.rows()) == ([0, 0, 1] if changed else [0, 1])
