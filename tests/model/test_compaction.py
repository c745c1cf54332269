"""Which files are rewritten together: fewer afterwards, never the same ones twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.model import compaction
from lakewarden.model.compaction import DELETED_SHARE, MANY_DELETES, FileGroup, PartitionFile, groups_of, runs_of

TARGET = 1000


def file(name: int, size: int, deleted: int = 0) -> PartitionFile:
    return PartitionFile(f"f{name:04d}", size, rows=100, deleted=deleted)


def after(files: list[PartitionFile], groups: list[FileGroup]) -> list[PartitionFile]:
    """The partition once the groups are rewritten: each group's bytes in files of the target's size, less its deletes."""
    gone = {one.path for group in groups for one in group.files}
    left = [one for one in files if one.path not in gone]
    for group in groups:
        count = group.outputs(TARGET)
        left += [
            PartitionFile(f"{group.name}-{place}", group.bytes // count, rows=100, deleted=0) for place in range(count)
        ]
    return left


def test_small_files_become_one() -> None:
    groups = groups_of([file(i, 10) for i in range(12)], TARGET, min_input_files=5)
    assert [len(group.files) for group in groups] == [12]
    assert groups[0].outputs(TARGET) == 1


def test_too_few_small_files_are_left_alone() -> None:
    assert groups_of([file(i, 10) for i in range(4)], TARGET, min_input_files=5) == []


def test_files_of_the_right_size_are_left_alone() -> None:
    assert groups_of([file(i, 900) for i in range(20)], TARGET, min_input_files=2) == []


def test_a_file_that_is_too_large_is_cut() -> None:
    groups = groups_of([file(1, 1801), file(2, 1799)], TARGET, min_input_files=2)
    assert [(group.reason, group.outputs(TARGET)) for group in groups] == [("too large", 2)]


def test_small_files_that_reach_the_next_level_meet_what_is_there() -> None:
    files = [*(file(i, 100) for i in range(5)), *(file(10 + i, 300) for i in range(3))]
    groups = groups_of(files, TARGET, min_input_files=4)
    assert [len(group.files) for group in groups] == [8]


def test_deletes_alone_are_a_reason() -> None:
    share = int(100 * DELETED_SHARE)
    groups = groups_of([file(1, 900, share), file(2, 900, share - 1), file(3, 10, share)], TARGET, min_input_files=5)
    assert sorted(one.path for group in groups for one in group.files) == ["f0001", "f0003"]


def test_a_group_is_no_more_than_one_task_carries() -> None:
    groups = groups_of([file(i, 200) for i in range(100)], TARGET, min_input_files=2)
    assert all(group.bytes <= 2 * TARGET for group in groups)
    assert len({one.path for group in groups for one in group.files}) == 100


def test_a_group_has_one_name_in_whatever_order() -> None:
    one, other = file(1, 10), file(2, 20)
    assert FileGroup((one, other), "").name == FileGroup((other, one), "").name != FileGroup((one,), "").name


def test_many_deletes_of_whatever_kind_are_a_reason_also_for_a_large_file() -> None:
    few, own, shared, both = (
        PartitionFile(name, 900, rows=100, own=mine, shared=others)
        for name, mine, others in (
            ("few", 0, MANY_DELETES - 1),
            ("own", MANY_DELETES, 0),
            ("shared", 0, MANY_DELETES),
            ("both", 1, MANY_DELETES - 1),
        )
    )
    groups = groups_of([few, own, shared, both], TARGET, min_input_files=5)
    assert sorted(one.path for group in groups for one in group.files) == ["both", "own", "shared"]
    assert {group.reason for group in groups} == {"deletes"}


def test_a_group_has_no_more_deletes_than_one_task_holds() -> None:
    """Deletes that apply to several files are counted once, those of one file for each file."""
    most = compaction.GROUP_DELETES
    shared = [PartitionFile(f"s{i}", 10, rows=100, shared=most) for i in range(8)]
    assert [len(group.files) for group in groups_of(shared, TARGET, 2)] == [8]
    own = [PartitionFile(f"o{i}", 10, rows=100, own=most // 4) for i in range(8)]
    assert [len(group.files) for group in groups_of(own, TARGET, 2)] == [4, 4]
    alone = [PartitionFile(f"a{i}", 10, rows=100, own=most + 1) for i in range(2)]
    assert [len(group.files) for group in groups_of(alone, TARGET, 2)] == [1, 1]


def test_a_group_has_no_more_files_than_one_task_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "GROUP_FILES", 10)
    groups = groups_of([file(i, 1) for i in range(35)], TARGET, min_input_files=2)
    assert [len(group.files) for group in groups] == [10, 10, 10, 5]
    # What they become is small still, and is taken together by the next plan; the one after it is empty.
    once = after([file(i, 1) for i in range(35)], groups)
    again = groups_of(once, TARGET, min_input_files=2)
    assert [len(group.files) for group in again] == [4]
    assert groups_of(after(once, again), TARGET, min_input_files=2) == []


def test_what_a_group_is_worth() -> None:
    files = (
        PartitionFile("a", 100, rows=100, deleted=50, own=1, shared=2, delete_bytes=30),
        PartitionFile("b", 100, rows=100),
        PartitionFile("c", 100, rows=0),
    )
    worth = FileGroup(files, "small files, level 0").worth(TARGET)
    assert (worth.files, worth.files_after, worth.bytes, worth.written_bytes) == (3, 1, 300, 250)
    # Two files fewer to open, and three files of deletes that were read beside the first.
    assert (worth.requests, worth.delete_bytes) == (5, 30)


# Most of them small: only then does what a group becomes meet others of the next level.
SIZES = st.one_of(st.integers(0, 100), st.integers(0, 400), st.integers(0, 3000))


@given(
    st.lists(st.tuples(SIZES, st.integers(0, 100), st.integers(0, 15), st.integers(0, 12)), max_size=60),
    st.integers(2, 8),
)
def test_no_file_is_in_two_groups_and_the_next_plan_is_empty(
    found: list[tuple[int, int, int, int]], least: int
) -> None:
    """Whatever deletes apply: a new file has none, those that apply to others stay with them."""
    files = [
        PartitionFile(f"f{place:04d}", size, rows=100, deleted=deleted, own=own, shared=shared)
        for place, (size, deleted, own, shared) in enumerate(found)
    ]
    groups = groups_of(files, TARGET, least)
    paths = [one.path for group in groups for one in group.files]
    assert len(paths) == len(set(paths))
    assert groups_of(after(files, groups), TARGET, least) == []


def placed(*sizes: int | None) -> list[PartitionFile]:
    """Files of these sizes in this order; None is something between them that stays."""
    return [
        PartitionFile(f"f{place:04d}", size, rows=100, place=place)
        for place, size in enumerate(sizes)
        if size is not None
    ]


def runs(*sizes: int | None, least: int = 2) -> list[list[int]]:
    return sorted([file.place for file in group.files] for group in runs_of(placed(*sizes), TARGET, least))


def test_where_files_have_an_order_only_neighbours_are_rewritten_together() -> None:
    assert runs(10, 10, 900, 10, 10) == [[0, 1], [3, 4]]
    assert runs(10, 10, None, 10, 10) == [[0, 1], [3, 4]]
    assert runs(10, 900, 10, 900, 10) == []
    # Small ones that reach the next level meet what is beside them, and nothing beyond that.
    assert runs(400, 150, 150, 900, 400) == [[0, 1, 2]]
    # Too few on one side are left alone, and are not reached across.
    assert runs(10, 10, 300, 10, 300, least=2) == [[0, 1]]
    assert runs(1801, 10) == [[0]]


@given(st.lists(st.one_of(st.none(), st.integers(1, 2500)), max_size=40), st.integers(2, 5))
def test_runs_are_neighbours_and_the_next_plan_of_them_is_empty(sizes: list[int | None], least: int) -> None:
    files = placed(*sizes)
    groups = runs_of(files, TARGET, least)
    left = {file.place: [file] for file in files}
    for group in groups:
        places = [file.place for file in group.files]
        assert places == list(range(places[0], places[0] + len(places)))
        count = group.outputs(TARGET)
        for place in places:
            del left[place]
        left[places[0]] = [PartitionFile(f"{group.name}-{n}", group.bytes // count, rows=100) for n in range(count)]
    # Places are counted anew: what was merged has left no hole, what stays between files has.
    covered = {place for group in groups for place in [file.place for file in group.files][1:]}
    again: list[int | None] = []
    for place in range(len(sizes)):
        again += [] if place in covered else [file.size for file in left.get(place, [])] or [None]
    assert runs_of(placed(*again), TARGET, least) == []
