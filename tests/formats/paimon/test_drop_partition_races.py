"""Dropping partitions while others write, while a store does not answer, and while a snapshot is taken away."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden.formats.paimon.commit.commit import FIRST_WAIT, LONGEST_WAIT, SETTLE, TRIES
from lakewarden.formats.paimon.partitions.drop import Held
from lakewarden.model.brakes import CODES
from lakewarden.model.errors import CommitConflictError, PlanOutdatedError, StoreUnavailableError
from lakewarden.model.verdict import Brake
from tests.formats.paimon.dropping import Deaf, Interfering, drop, drop_expected, partition, records, snapshots
from tests.formats.paimon.reading import Ref, Rows, rows_by_pypaimon
from tests.formats.paimon.story import Story

DAYS = tuple(f"2024-01-{day:02d}" for day in range(1, 7))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], options={"bucket": "-1"})
    story.append([(day, 1, "x") for day in DAYS])
    return story


def days(location: Path) -> list[str]:
    rows: Rows = rows_by_pypaimon(location, Ref(snapshot=snapshots(location)[-1]["id"]))
    return [row[0] for row in rows]


def held(location: Path) -> dict[bytes, Held]:
    """What a plan would say of each partition: its files, and the newest of their times."""
    latest = snapshots(location)[-1]
    lists = [latest["baseManifestList"], latest["deltaManifestList"]]
    found: dict[bytes, Held] = {}
    for manifest in (row["_FILE_NAME"] for name in lists for row in records(location, name)):
        for entry in records(location, manifest):
            created = (
                entry["_FILE"]["_CREATION_TIME"].astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
            ).total_seconds()
            files, newest = found.get(entry["_PARTITION"], (0, None))
            found[entry["_PARTITION"]] = files + (-1 if entry["_KIND"] else 1), max(newest or 0, round(created * 1000))
    return found


def once(story: Story, *day: str) -> Interfering:
    """A store where a writer is quicker, the first time."""
    left = [day]

    def write(path: Path) -> None:
        if left:
            story.append([(one, 9, "late") for one in left.pop()])

    return Interfering(before=write)


def test_a_quicker_writer_keeps_the_partition_it_wrote_to_and_the_others_go(story: Story) -> None:
    expected = held(story.location)
    store = once(story, DAYS[0], DAYS[5])
    found = drop_expected(story.location, (DAYS[0],), (DAYS[1],), files=store, expected=expected)
    assert found.kept == {partition(story.location, DAYS[0])}
    assert found.commit is not None
    assert (found.commit.snapshot_id, found.commit.files) == (3, 1)
    assert days(story.location) == [*DAYS[:1], *DAYS[:1], *DAYS[2:], DAYS[5]]
    assert [s["commitKind"] for s in snapshots(story.location)] == ["APPEND", "APPEND", "OVERWRITE"]


def test_where_every_partition_was_written_to_nothing_is_committed(story: Story) -> None:
    expected = held(story.location)
    found = drop_expected(story.location, (DAYS[0],), files=once(story, DAYS[0]), expected=expected)
    assert (found.commit, found.kept) == (None, {partition(story.location, DAYS[0])})
    assert len(snapshots(story.location)) == 2


def test_a_partition_that_was_replaced_by_as_many_files_is_kept(story: Story) -> None:
    expected = held(story.location)
    story.overwrite({"dt": DAYS[0]}, [(DAYS[0], 9, "late")])
    found = drop_expected(story.location, (DAYS[0],), (DAYS[1],), expected=expected)
    assert found.kept == {partition(story.location, DAYS[0])}
    assert days(story.location) == [DAYS[0], *DAYS[2:]]


def test_one_that_somebody_else_emptied_is_neither_kept_nor_dropped(story: Story) -> None:
    expected = held(story.location)
    drop(story.location, (DAYS[0],), user="another")
    found = drop_expected(story.location, (DAYS[0],), expected=expected)
    assert (found.commit, found.kept) == (None, frozenset())


def test_the_last_rows_stay_unless_somebody_answers_for_it(story: Story) -> None:
    for what in (dict[str, Any](), {"expected": held(story.location)}):
        with pytest.raises(PlanOutdatedError, match="no row would be left") as raised:
            drop(story.location, *((day,) for day in DAYS), **what)
        assert raised.value.code == CODES[Brake.TABLE_EMPTIED]
    assert len(snapshots(story.location)) == 1
    drop(story.location, *((day,) for day in DAYS), may_empty=True)
    assert days(story.location) == []


def test_a_writer_that_takes_the_other_rows_meanwhile_stops_it(story: Story) -> None:
    """Judged anew at each try: the first one still saw the last day."""
    left = [DAYS[5]]

    def write(path: Path) -> None:
        if left:
            story.truncate({"dt": left.pop()})

    with pytest.raises(PlanOutdatedError, match="no row would be left"):
        drop(story.location, *((day,) for day in DAYS[:5]), files=Interfering(before=write))
    assert days(story.location) == list(DAYS[:5])


def test_racing_workers_each_make_exactly_one_commit(story: Story) -> None:
    wanted = [partition(story.location, day) for day in DAYS]
    barrier = threading.Barrier(len(DAYS))

    def work(number: int) -> int:
        barrier.wait()
        found = drop(story.location, wanted[number], user=f"worker-{number}", identifier=5, may_empty=True)
        assert found is not None
        return found.snapshot_id

    with ThreadPoolExecutor(len(DAYS)) as pool:
        ids = list(pool.map(work, range(len(DAYS))))
    assert sorted(ids) == list(range(2, 2 + len(DAYS)))
    made = snapshots(story.location)
    assert {s["commitUser"]: s["id"] for s in made[1:]} == {f"worker-{n}": i for n, i in enumerate(ids)}
    assert made[-1]["totalRecordCount"] == 0
    assert days(story.location) == []


def test_two_workers_after_one_partition_drop_it_once(story: Story) -> None:
    wanted = partition(story.location, DAYS[0])
    barrier = threading.Barrier(2)

    def work(user: str) -> bool:
        barrier.wait()
        return drop(story.location, wanted, user=user) is not None

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(work, ("a", "b"))) == [False, True]
    assert len(snapshots(story.location)) == 2
    assert days(story.location) == list(DAYS[1:])


def test_a_snapshot_that_another_writer_renames_over_is_noticed(story: Story, tmp_path: Path) -> None:
    """The other writer saw that snapshot-2 is free before we created it, and renames its own over it afterwards."""
    shutil.copytree(tmp_path, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("elsewhere"))
    other = replace(story, warehouse=tmp_path / "elsewhere", now={"main": []})
    other.append([(DAYS[0], 9, "late"), (DAYS[1], 9, "late")])
    left = [True]

    def rename_over(path: Path) -> None:
        if left and left.pop():
            shutil.copytree(other.location, story.location, dirs_exist_ok=True)

    found = drop(story.location, (DAYS[0],), files=Interfering(after=rename_over))
    assert found is not None
    assert (found.snapshot_id, found.files) == (3, 2)
    assert [s["commitKind"] for s in snapshots(story.location)] == ["APPEND", "APPEND", "OVERWRITE"]
    assert days(story.location) == [*DAYS[1:2], *DAYS[1:]]


def test_a_commit_that_was_made_without_an_answer_counts_and_is_not_made_twice(story: Story) -> None:
    found = drop(story.location, (DAYS[0],), files=Deaf(written=True))
    assert found is not None
    assert found.snapshot_id == 2
    assert len(snapshots(story.location)) == 2


def test_a_commit_that_was_not_made_is_tried_again(story: Story) -> None:
    files = Deaf(written=False, times=3)
    found = drop(story.location, (DAYS[0],), files=files)
    assert found is not None
    assert (found.snapshot_id, files.deaf) == (2, 3)
    assert days(story.location) == list(DAYS[1:])


def test_where_nobody_can_tell_the_next_run_finds_out(story: Story) -> None:
    with pytest.raises(StoreUnavailableError, match="is unknown"):
        drop(story.location, (DAYS[0],), files=Deaf(written=True, blind=True))
    found = drop(story.location, (DAYS[0],))
    assert found is not None
    assert (found.snapshot_id, found.files, found.records) == (2, 1, 1)
    assert len(snapshots(story.location)) == 2


def test_it_gives_up_after_bounded_tries(story: Story) -> None:
    def always(path: Path) -> None:
        story.append([(DAYS[1], 9, "late")])

    waits: list[float] = []
    with pytest.raises(CommitConflictError):
        drop(story.location, (DAYS[0],), files=Interfering(before=always), sleep=waits.append)
    assert len(snapshots(story.location)) == 1 + TRIES
    assert waits == [min(FIRST_WAIT * 2**i, LONGEST_WAIT) for i in range(TRIES - 1)]
    assert DAYS[0] in days(story.location)


def test_it_waits_before_it_reads_back(story: Story) -> None:
    waits: list[float] = []
    drop(story.location, (DAYS[0],), sleep=waits.append)
    assert waits == [SETTLE]


def test_a_rollback_under_our_hands_is_noticed(story: Story) -> None:
    story.append([(DAYS[0], 2, "y")])
    left = [True]

    class RollingBack(Interfering):
        """Rolled back after the manifests were written and before the snapshot is."""

        def put(self, uri: str, data: bytes) -> None:
            super().put(uri, data)
            if "manifest-list" in uri and uri.endswith("-1") and left and left.pop():
                story.roll_back(1)

    found = drop(story.location, (DAYS[0],), files=RollingBack())
    assert found is not None
    assert (found.snapshot_id, found.files) == (2, 1)
    assert [s["commitKind"] for s in snapshots(story.location)] == ["APPEND", "OVERWRITE"]


def test_a_rollback_in_the_last_moment_is_told_by_name(story: Story) -> None:
    """It came after the last look and before our snapshot file, which stands on what was taken away."""
    story.append([(DAYS[0], 2, "y")])
    story.append([(DAYS[1], 2, "y")])
    with pytest.raises(PlanOutdatedError, match="stands on snapshot 3, which was taken away") as caught:
        drop(story.location, (DAYS[0],), files=Interfering(before=lambda path: story.roll_back(1)))
    assert "snapshot-4 is ours" in caught.value.message
    assert "roll it back again" in caught.value.message


def test_a_table_that_was_made_anew_gets_no_commit(story: Story, tmp_path: Path) -> None:
    left = [True]

    def make_anew(path: Path) -> None:
        if left and left.pop():
            shutil.rmtree(story.location)
            again = Story.begin(tmp_path, "t", partition_keys=["dt"], options={"bucket": "-1", "made": "anew"})
            again.append([(DAYS[0], 1, "new")])
            again.append([(DAYS[0], 2, "new")])

    with pytest.raises(PlanOutdatedError, match="created again"):
        drop(story.location, (DAYS[0],), files=Interfering(before=make_anew))
    assert days(story.location) == [DAYS[0], DAYS[0]]
    assert len(snapshots(story.location)) == 2
