"""Files that nobody needs in each of several cases, counted from rows: by hand, and against counting each case by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.model.verdict import Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.by_level import Level, LevelTask, counts_by_level
from lakewarden.pipeline.compare.verdicts import Ownership, Rules
from lakewarden.storage.store import SYMLINK
from tests.pipeline.compare.test_verdicts import OLD as WRITTEN
from tests.pipeline.compare.test_verdicts import ROOT, micros, row, rules

A, B, C = (c.level_mark(number) for number in range(3))
NAMED = c.MARK_RELEASED
OTHER = "file:///lake/other/"


def releasing(*owners: tuple[int, str]) -> Rules:
    """The rules of a release in the roots of these tables."""
    return rules(
        owners={root: (Ownership(prefix, root),) for root, prefix in owners}, cutoffs=(0, 0), selected=(True, True),
        confirm=(False, False), changing=Verdict.PENDING, only=NAMED,
    )  # fmt: skip


BOTH = releasing((0, ROOT), (1, OTHER))


def task(*levels: tuple[int, frozenset[int]], small: int = 5, since: int = 0) -> LevelTask:
    return LevelTask(tuple(Level(mark, BOTH, roots) for mark, roots in levels), small, since)


def counted(rows: list[dict[str, Any]], asked: LevelTask) -> dict[tuple[int, int], tuple[int, int]]:
    """Files and bytes by case and table."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for table in counts_by_level(pa.Table.from_pylist(rows, schema=c.JOINED), asked):
        for line in table.to_pylist():
            files, size = found.get((line["level"], line[c.TABLE]), (0, 0))
            found[line["level"], line[c.TABLE]] = (files + line["files"], size + line["bytes"])
    return found


EVERYWHERE = frozenset({0, 1})
TEN = [
    row("data/1.parquet", **{c.MARK: NAMED | A | B | C, c.SIZE: 1}),
    row("data/2.parquet", **{c.MARK: NAMED | B | C, c.SIZE: 2}),
    row("data/3.parquet", **{c.MARK: NAMED | C, c.SIZE: 4}),
    row("data/4.parquet", **{c.MARK: NAMED, c.SIZE: 8}),
    row("data/5.parquet", **{c.MARK: NAMED | A, c.SIZE: 16}),  # needed again with a shorter retention
    row("data/6.parquet", **{c.MARK: None, c.SIZE: 32}),  # an orphan: no table names it
    row("data/7.parquet", **{c.MARK: NAMED, c.FLAG: SYMLINK, c.SIZE: 64}),
    row("", **{c.KEY: f"{OTHER}data/8.parquet", c.ROOT: 1, c.MARK: NAMED | C, c.SIZE: 128}),
    row("", **{c.KEY: f"{OTHER}data/9.parquet", c.ROOT: 1, c.MARK: NAMED, c.SIZE: 256}),
    row("metadata/0.metadata.json", **{c.MARK: None, c.SIZE: 512}),
]  # fmt: skip


def test_ten_rows() -> None:
    found = counted(TEN, task((A, EVERYWHERE), (B, EVERYWHERE), (C, EVERYWHERE), (0, EVERYWHERE)))
    assert {level: found[level, 0] for level in range(4)} == {
        0: (3, 2 + 4 + 8),
        1: (3, 4 + 8 + 16),
        2: (2, 8 + 16),
        3: (5, 1 + 2 + 4 + 8 + 16),
    }
    assert {level: found[level, 1] for level in range(4)} == {0: (2, 384), 1: (2, 384), 2: (1, 256), 3: (2, 384)}


def test_a_root_without_a_table_that_goes_is_not_looked_at() -> None:
    found = counted(TEN, task((A, frozenset({1})), (B, frozenset({0}))))
    assert {(level, table) for level, table in found} == {(0, 1), (1, 0)}


def test_small_and_recent_data_files_are_counted_apart() -> None:
    [table] = counts_by_level(
        pa.Table.from_pylist(TEN[:5], schema=c.JOINED), task((0, EVERYWHERE), small=5, since=micros(WRITTEN))
    )
    lines = table.to_pylist()
    assert {(line["small"], line["data"], line["recent"]): line["files"] for line in lines} == {
        (True, True, True): 3,
        (False, True, True): 2,
    }


MARKS = st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 1000)), max_size=30)


@given(MARKS)
def test_it_is_what_each_case_counts_by_itself(files: list[tuple[bool, int, int]]) -> None:
    rows = [
        row(f"data/{i}.parquet", **{c.MARK: (NAMED if named else 0) | bits << c.MARK_LEVELS, c.SIZE: size})
        for i, (named, bits, size) in enumerate(files)
    ]
    found = counted(rows, task((A, EVERYWHERE), (B, EVERYWHERE), (C, EVERYWHERE)))
    for level in range(3):
        free = [size for named, bits, size in files if named and not bits >> level & 1]
        assert found.get((level, 0), (0, 0)) == (len(free), sum(free))


@given(MARKS)
def test_where_each_case_keeps_what_the_one_before_keeps_the_curve_falls(files: list[tuple[bool, int, int]]) -> None:
    nested = {0: 0, 1: A | B | C, 2: B | C, 3: C}
    rows = [
        row(f"data/{i}.parquet", **{c.MARK: NAMED | nested[bits % 4], c.SIZE: size})
        for i, (_, bits, size) in enumerate(files)
    ]
    found = counted(rows, task((A, EVERYWHERE), (B, EVERYWHERE), (C, EVERYWHERE)))
    curve = [found.get((level, 0), (0, 0)) for level in range(3)]
    assert curve == sorted(curve, reverse=True)
