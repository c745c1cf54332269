"""Which deletes count for which data files of a partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.model.compaction import PartitionFile, groups_of
from lakewarden.pipeline.read.data_files import DATA_FILES
from lakewarden.pipeline.rewrite.partition_files import is_hot, partition_files

DATA, POSITIONS, EQUALITY = 0, 1, 2


def row(content: int, path: str, sequence: int | None, **more: Any) -> dict[str, Any]:
    return {"content": content, "path": path, "sequence": sequence, "size": 100, "rows": 10, **more}


def found(*rows: dict[str, Any]) -> dict[str, PartitionFile]:
    return {one.path: one for one in partition_files(pa.Table.from_pylist(list(rows), schema=DATA_FILES))}


def test_equality_deletes_count_for_older_files_alone() -> None:
    files = found(
        row(DATA, "old", 1),
        row(DATA, "same", 2),
        row(DATA, "new", 3),
        row(EQUALITY, "e2", 2, size=7),
        row(EQUALITY, "e3", 3, size=5),
    )
    assert {name: (one.shared, one.delete_bytes) for name, one in files.items()} == {
        "old": (2, 12),
        "same": (1, 5),
        "new": (0, 0),
    }


def test_deletes_that_name_a_file_are_its_own() -> None:
    files = found(
        row(DATA, "a", 1),
        row(DATA, "b", 1),
        row(POSITIONS, "p", 1, about="a", rows=3, size=11),
        row(POSITIONS, "q", 2, about="a", rows=9, size=11),
        row(POSITIONS, "of several", 2, size=2),
    )
    assert files["a"] == PartitionFile("a", 100, 10, deleted=10, own=2, shared=1, delete_bytes=24, place=1)
    assert files["b"] == PartitionFile("b", 100, 10, shared=1, delete_bytes=2, place=1)


def test_a_table_that_tells_no_sequence_numbers_has_no_such_deletes() -> None:
    assert found(row(DATA, "a", None)) == {"a": PartitionFile("a", 100, 10)}


def test_a_partition_is_hot_when_a_fresh_snapshot_brought_a_file_of_any_kind() -> None:
    rows = pa.Table.from_pylist(
        [row(DATA, "a", 1, snapshot=1), row(EQUALITY, "e", 2, snapshot=2), row(DATA, "b", 1)], schema=DATA_FILES
    )
    assert is_hot(rows, {2, 9})
    assert not is_hot(rows, {9})
    assert not is_hot(rows, ())


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 20)), min_size=1, max_size=30),
    st.lists(st.tuples(st.sampled_from([POSITIONS, EQUALITY]), st.integers(1, 20)), max_size=30),
    st.integers(2, 5),
)
def test_what_was_rewritten_is_not_planned_again_whatever_deletes_stay(
    data: list[tuple[int, int]], deletes: list[tuple[int, int]], least: int
) -> None:
    """New files carry the number of the snapshot that they were read from; no delete is taken away here."""
    rows = [row(DATA, f"d{place:03d}", number, size=size) for place, (size, number) in enumerate(data)]
    others = [row(content, f"x{place}", number) for place, (content, number) in enumerate(deletes)]
    groups = groups_of(found(*rows, *others).values(), 1000, least, 3)
    gone = {file.path for group in groups for file in group.files}
    head = max(number for _, number in [*data, *deletes])
    for group in groups:
        count = group.outputs(1000)
        rows += [row(DATA, f"{group.name}-{part}", head, size=group.bytes // count) for part in range(count)]
    left = [one for one in rows if one["path"] not in gone]
    assert groups_of(found(*left, *others).values(), 1000, least, 3) == []


def test_a_file_that_was_added_twice_is_left_out() -> None:
    assert set(found(row(0, "a", 1), row(0, "b", 1), row(0, "a", 2))) == {"b"}
