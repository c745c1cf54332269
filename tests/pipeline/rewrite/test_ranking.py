"""The curve of groups, best first, and the first group that a budget leaves out, against sums over all of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lakewarden.model.worth import POINTS
from lakewarden.pipeline.rewrite.ranking import RANKED, SUMS, stretches

Row = dict[str, Any]


def groups_of(sizes: list[int]) -> list[Row]:
    """One group of each size, best first."""
    counts = dict.fromkeys(SUMS, 1)
    return [{"group": f"g{n}", "per_cost": 1e6 - n, **counts, "bytes": size} for n, size in enumerate(sizes)]


def told(groups: list[Row], budget: int | None = None, at_once: int = 7) -> list[Row]:
    batches = pa.Table.from_pylist(groups, schema=RANKED).to_batches(max_chunksize=at_once)
    nothing = pa.RecordBatch.from_pylist([], schema=RANKED)
    return [row for batch in stretches(budget)([nothing, *batches]) for row in batch.to_pylist()]


@given(st.lists(st.integers(0, 1 << 50), max_size=120), st.integers(1, 9))
@example([1 << 50] + [1] * 50, 3)
@example([0] * 50, 3)
def test_stretches_are_groups_in_their_order_and_not_too_many(sizes: list[int], at_once: int) -> None:
    groups = groups_of(sizes)
    found = told(groups, at_once=at_once)
    assert len(found) <= POINTS
    assert {name: sum(row[name] for row in found) for name in SUMS} == {
        name: sum(group[name] for group in groups) for name in SUMS
    }
    ends = {sum(sizes[:end]) for end in range(len(sizes) + 1)}
    assert {sum(row["bytes"] for row in found[:end]) for end in range(len(found) + 1)} <= ends
    assert told(groups, at_once=50) == found, "however they come"


def test_a_few_groups_have_a_stretch_each() -> None:
    assert [row["bytes"] for row in told(groups_of([5, 1, 700, 3]))] == [5, 1, 700, 3]


def test_equal_groups_make_stretches_of_the_same_size() -> None:
    found = [row["groups"] for row in told(groups_of([1000] * 4096), at_once=300)]
    assert POINTS // 2 <= len(found) <= POINTS
    assert max(found) - min(found[:-1]) <= 1


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(1, 4000), st.integers(1, 9))
def test_the_group_that_reaches_the_budget_is_the_last_to_be_taken(sizes: list[int], budget: int, at_once: int) -> None:
    groups = groups_of(sizes)
    beyond = next((n for n in range(len(sizes)) if sum(sizes[:n]) >= budget), None)
    wanted = (None, None) if beyond is None else (-groups[beyond]["per_cost"], groups[beyond]["group"])
    assert {(row["worse"], row["name"]) for row in told(groups, budget, at_once)} == {wanted}
