"""Other writers at work between the rewriting and its commit, and commits that are cut short: no row is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

from lakewarden.formats.paimon.commit import commit as committing
from lakewarden.model.errors import CommitConflictError, LeaseLostError, PlanOutdatedError
from tests.formats.paimon.compaction.bench import Bench

COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string())])


def rows(*ids: int) -> pa.Table:
    """Even ids are in a, odd ones in b."""
    return pa.Table.from_pylist([{"id": i, "part": "b" if i % 2 else "a"} for i in ids], schema=COLUMNS)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Three files in each of two partitions, ids 0 to 11."""
    found = Bench(tmp_path)
    found.create(COLUMNS, partitions=["part"])
    for first in (0, 4, 8):
        found.write(rows(*range(first, first + 4)))
    return found


def expected(*ids: int) -> list[str]:
    return sorted(repr(row) for row in rows(*ids).to_pylist())


def test_an_append_is_not_lost(bench: Bench) -> None:
    landed = bench.compact(lambda: bench.write(rows(20, 21)))
    assert (landed.files_removed, landed.files_added, landed.dropped) == (6, 2, {})
    assert bench.rows() == expected(*range(12), 20, 21)
    assert len(bench.entries()) == 4


def test_the_snapshot_says_what_it_is(bench: Bench) -> None:
    bench.compact()
    latest = bench.table.main.latest
    assert latest is not None
    said = latest.document
    assert (said["commitKind"], said["deltaRecordCount"], said["totalRecordCount"]) == ("COMPACT", 0, 12)
    assert said["properties"]["lakewarden.job"] == "compaction"
    assert said["properties"]["lakewarden.lease-key"] == "k/g0,k/g1"


def test_a_group_whose_file_is_gone_is_dropped_and_the_others_land(bench: Bench) -> None:
    landed = bench.compact(lambda: bench.overwrite(rows(100), {"part": "a"}))
    assert (landed.files_removed, len(landed.groups), len(landed.dropped)) == (3, 1, 1)
    assert "not in the table any more" in next(iter(landed.dropped.values()))
    assert bench.rows() == expected(100, *range(1, 12, 2))
    # What was written for it is nobody's, and only that.
    assert ["part=a" in path for path in bench.unused] == [True]
    assert not {path.rpartition("/")[2] for path in bench.unused} & bench.named()


def test_a_rollback_takes_groups_out(bench: Bench) -> None:
    landed = bench.compact(lambda: bench.catalog.get_table(bench.name).rollback_to(1))
    assert (landed.snapshot, len(landed.dropped)) == (None, 2)
    assert bench.rows() == expected(*range(4))


def test_two_that_rewrote_the_same_files_commit_once(bench: Bench) -> None:
    mine, theirs = bench.prepared(), bench.prepared(run="r2")
    answers = bench.answers(mine)
    assert bench.commit(theirs, bench.answers(theirs), run="r2").files_removed == 6
    landed = bench.commit(mine, answers)
    assert (landed.snapshot, len(landed.dropped)) == (None, 2)
    assert bench.rows() == expected(*range(12))


def test_a_table_that_was_altered_meanwhile_is_left_as_it_is(bench: Bench) -> None:
    with pytest.raises(CommitConflictError, match="another schema"):
        bench.compact(lambda: bench.change_schema(SchemaChange.add_column("more", AtomicType("INT"))))
    assert len(bench.entries()) == 6
    assert len(bench.unused) == 2


def test_a_table_that_was_made_again_is_left_alone(bench: Bench) -> None:
    prepared = bench.prepared()
    answers = bench.answers(prepared)
    bench.catalog.drop_table(bench.name)
    bench.create(COLUMNS, {"snapshot.time-retained": "2 h"}, ["part"])
    bench.write(rows(1))
    with pytest.raises(PlanOutdatedError, match="created again"):
        bench.commit(prepared, answers)
    assert bench.rows() == expected(1)


def test_a_worker_that_was_given_up_does_not_commit(bench: Bench) -> None:
    """A later holder of a group's lease has committed: whatever this one rewrote is not taken."""
    mine = bench.prepared()
    answers = bench.answers(mine)
    theirs = bench.prepared(bench.groups()[:1], run="r2")
    bench.commit(theirs, bench.answers(theirs), run="r2", epochs=[8])
    with pytest.raises(LeaseLostError, match="epoch 8"):
        bench.commit(mine, answers, epochs=[7, 1])
    assert bench.rows() == expected(*range(12))
    assert len(bench.unused) == 2
    assert not {path.rpartition("/")[2] for path in bench.unused} & bench.named()


def test_a_run_that_died_behind_its_commit_does_not_commit_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = bench.prepared()
    answers = bench.answers(prepared)
    publish = committing._publish

    def killed(*given: Any) -> bool:
        publish(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(committing, "_publish", killed)
        with pytest.raises(KeyboardInterrupt):
            bench.commit(prepared, answers)
    (made,) = bench.prepared().made
    landed = bench.commit(prepared, answers)
    assert (made.snapshot, made.groups) == (landed.snapshot, landed.groups)
    counted = (made.files_removed, made.files_added, made.bytes_removed, made.bytes_added)
    assert counted == (landed.files_removed, landed.files_added, landed.bytes_removed, landed.bytes_added)
    assert min(counted) > 0
    assert (landed.snapshot, landed.files_removed, landed.files_added, list(landed.groups)) == (4, 6, 2, ["g0", "g1"])
    assert [snapshot.id for snapshot in bench.table.main.snapshots] == [1, 2, 3, 4]
    assert bench.rows() == expected(*range(12))
    assert bench.unused == set()


def test_files_of_a_try_that_may_have_been_made_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every try came to its snapshot and heard that the number is another's: perhaps one was heard late."""
    monkeypatch.setattr(committing, "_publish", lambda *_: False)
    monkeypatch.setattr(committing, "FIRST_WAIT", 0.0)
    with pytest.raises(CommitConflictError, match="met other writers"):
        bench.compact()
    assert bench.unused == set()


def test_a_run_that_died_before_its_commit_leaves_the_table_as_it_was(bench: Bench) -> None:
    prepared = bench.prepared()
    answers = bench.answers(prepared)

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.commit(prepared, answers, may_commit=killed)
    assert len(bench.entries()) == 6
    assert bench.compact().files_removed == 6
    assert bench.rows() == expected(*range(12))


def test_a_new_file_that_is_not_there_is_not_committed(bench: Bench) -> None:
    before = set(bench.base.rglob("*.parquet"))

    def lose() -> None:
        for path in set(bench.base.rglob("*.parquet")) - before:
            path.unlink()

    with pytest.raises(CommitConflictError, match="not there as it was written"):
        bench.compact(lose)
    assert bench.rows() == expected(*range(12))


def test_a_file_that_is_missing_or_has_other_rows_keeps_its_group_from_being_rewritten(bench: Bench) -> None:
    first, second = (prepared := bench.prepared()).orders.items()
    name = prepared.kept[first[0]].inputs[0].path.removeprefix("file://")
    Path(name).rename(f"{name}.away")
    landed = bench.commit(prepared, bench.answers(prepared))
    assert list(landed.groups) == [second[0]]
    assert first[0] in landed.dropped
    Path(f"{name}.away").rename(name)
    assert bench.rows() == expected(*range(12))


def test_a_manifest_is_fetched_once_by_a_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not change need not be read at the planning of a group, at its commit and at each try of it."""
    fetched: Counter[str] = Counter()
    get_many = bench.stores.get_many

    def counted(uris: Sequence[str]) -> Any:
        fetched.update(uri for uri in uris if "/manifest/" in uri)
        return get_many(uris)

    groups = bench.groups()
    monkeypatch.setattr(bench.stores, "get_many", counted)
    prepared = bench.prepared(groups)
    answers = bench.answers(prepared)
    bench.write(rows(90))
    assert bench.commit(prepared, answers).groups
    assert fetched
    assert set(fetched.values()) == {1}
