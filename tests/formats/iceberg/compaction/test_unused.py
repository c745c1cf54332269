"""Which new files are certain to be in no commit: those alone may go at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.commit.versions import MovedOnError, RefusedError, SqlVersions
from lakewarden.formats.iceberg.data.order import Rewritten
from lakewarden.formats.iceberg.metadata.known import Version
from lakewarden.model.errors import CatalogUnavailableError, CommitConflictError, DoubtfulCommitError, LeaseLostError
from tests.formats.iceberg.compaction.bench import Bench

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.make(COLUMNS, BY_PART)
    for first in (0, 2):
        found.table.append(pa.table({"id": pa.array([first, first + 1], pa.int64()), "part": ["a", "b"]}))
    return found


def groups(bench: Bench) -> list[Any]:
    return [[one for one in bench.live() if one.file["partition"] == {"part": part}] for part in "ab"]


def files_of(answers: Mapping[str, str], *names: str) -> set[str]:
    return {file.path for name in names for file in Rewritten.loads(answers[name]).files}


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Exception | None, made: bool = False) -> None:
    """What the catalog says to commits, one after the other; `made`: it makes them all the same."""
    left, real = list(answers), SqlVersions.add

    def add(self: SqlVersions, table: str, version: Version, *more: Any) -> Version:
        said = left.pop(0) if left else None
        if said is None or made:
            found = real(self, table, version, *more)
        if said is not None:
            raise said
        return found

    monkeypatch.setattr(SqlVersions, "add", add)


def test_the_files_of_a_dropped_group(bench: Bench) -> None:
    ready = bench.prepare(*groups(bench))
    answers = bench.rewrite(ready)
    bench.table.delete("id = 0")
    landed = bench.commit(ready, answers)
    assert landed.groups == ["g1"]
    assert set(landed.unused.uris) == files_of(answers, "g0")
    assert landed.unused.named() == set()


def test_all_files_of_a_table_that_was_altered(bench: Bench) -> None:
    ready = bench.prepare(*groups(bench))
    answers = bench.rewrite(ready)
    with bench.table.update_schema() as change:
        change.add_column("more", LongType())
    landed = bench.commit(ready, answers)
    assert isinstance(landed.failed, CommitConflictError)
    assert set(landed.unused.uris) == files_of(answers, "g0", "g1")


def test_all_files_of_a_worker_that_lost_its_lease(bench: Bench) -> None:
    ready = bench.prepare(*groups(bench))
    answers = bench.rewrite(ready)

    def lost() -> None:
        raise LeaseLostError("it is not held any more")

    landed = bench.commit(ready, answers, may_commit=lost)
    assert isinstance(landed.failed, LeaseLostError)
    assert set(landed.unused.uris) == files_of(answers, "g0", "g1")


def test_none_of_a_commit_that_landed(bench: Bench) -> None:
    ready = bench.prepare(*groups(bench))
    landed = bench.commit(ready, bench.rewrite(ready))
    assert (landed.groups, list(landed.unused.uris)) == (["g0", "g1"], [])


@pytest.mark.parametrize(("said", "certain"), [(RefusedError("no"), True), (MovedOnError("perhaps"), False)])
def test_a_group_that_was_sent_before_it_was_dropped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, said: Exception, certain: bool
) -> None:
    """Its files may be in a commit that was made and taken back: only a refusal for certain rules that out."""
    ready = bench.prepare(*groups(bench))
    answers = bench.rewrite(ready)
    answering(monkeypatch, said)
    calls = iter([lambda: None, lambda: bench.table.delete("id = 0")])

    def then() -> None:
        next(calls, lambda: None)()

    landed = bench.commit(ready, answers, may_commit=then)
    # The delete came between the look and the swap of the second try: the third one sees it.
    assert landed.groups == ["g1"]
    assert set(landed.unused.uris) == (files_of(answers, "g0") if certain else set())


@pytest.mark.parametrize("said", [DoubtfulCommitError("who knows"), CatalogUnavailableError("silence")])
@pytest.mark.parametrize("made", [True, False])
def test_nothing_is_told_of_files_whose_commit_is_doubtful(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, said: Exception, made: bool
) -> None:
    ready = bench.prepare(*groups(bench))
    answers = bench.rewrite(ready)
    answering(monkeypatch, said, made=made)
    if made and isinstance(said, CatalogUnavailableError):
        landed = bench.commit(ready, answers)
        assert (landed.groups, list(landed.unused.uris)) == (["g0", "g1"], [])
    else:
        with pytest.raises(type(said)):
            bench.commit(ready, answers)
    assert [row[0] for row in bench.rows()] == [0, 1, 2, 3]


def test_two_processes_of_one_run(bench: Bench) -> None:
    """The second finds the commit of the first by its name. Whose files are in it is not asked: all are kept."""
    ready, again = bench.prepare(*groups(bench)), bench.prepare(*groups(bench))
    first, second = bench.rewrite(ready), bench.rewrite(again)
    assert bench.commit(ready, first).groups == ["g0", "g1"]
    landed = bench.commit(again, second)
    assert (landed.groups, list(landed.unused.uris)) == (["g0", "g1"], [])
    assert {one.path for one in bench.live()} == files_of(first, "g0", "g1")


@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_call_that_is_repeated_does_not_give_away_what_the_first_committed(bench: Bench, rolled_back: bool) -> None:
    """Also where the commit was taken back meanwhile: its snapshot is in the table's list, and can be gone back to."""
    ready = bench.prepare(*groups(bench))
    answers = bench.rewrite(ready)
    before = bench.document["current-snapshot-id"]
    assert bench.commit(ready, answers).groups == ["g0", "g1"]
    if rolled_back:
        main = {"main": {"snapshot-id": before, "type": "branch"}}
        bench.change(lambda document: document.update({"current-snapshot-id": before, "refs": main}))
        bench.table.delete("id = 0")
    assert list(bench.commit(ready, answers).unused.uris) == []


def test_a_file_that_somebody_added_by_name_is_named(bench: Bench) -> None:
    ready = bench.prepare(*groups(bench))
    answers = bench.rewrite(ready)
    bench.table.delete("id = 0")
    landed = bench.commit(ready, answers)
    # Manifests are what counts, so one that names the file is made as an engine would have made it.
    bench.add_path(next(iter(landed.unused.uris)), bench.live()[0])
    assert landed.unused.named() == set(landed.unused.uris)


def test_what_a_commit_says_of_its_inputs(bench: Bench) -> None:
    inputs = bench.live()
    read = bench.document["current-snapshot-id"]
    bench.compact(*groups(bench))
    summary = bench.document["snapshots"][-1]["summary"]
    assert summary["operation"] == "replace"
    writers = sorted({one.entry["snapshot_id"] for one in inputs})
    assert summary["input.snapshot_ids"] == ",".join(map(str, writers))
    assert summary["lakewarden.read-snapshot"] == str(read)
    assert summary["input.row_count"] == "4"
    assert summary["input.bytes_compressed"] == str(sum(one.file["file_size_in_bytes"] for one in inputs))
    assert (summary["lakewarden.lease-key"], summary["lakewarden.lease-epoch"]) == ("run/g0,run/g1", "1,1")


def test_more_writers_than_a_summary_should_name(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.formats.iceberg.compaction.replace.MOST_INPUT_SNAPSHOTS", 1)
    read = bench.document["current-snapshot-id"]
    bench.compact(*groups(bench))
    assert bench.document["snapshots"][-1]["summary"]["input.snapshot_ids"] == str(read)
