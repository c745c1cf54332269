"""Which groups share a task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.pipeline.rewrite.files import SHARED_TASK, shared_out


def test_small_groups_share_as_few_tasks_as_keep_every_core_busy() -> None:
    found = shared_out([1000] * 50, 8)
    assert (len(found), {len(some) for some in found}) == (8, {6, 7})


def test_large_groups_have_a_task_each_and_go_first() -> None:
    weights = [10, 2 * SHARED_TASK, 10, 3 * SHARED_TASK]
    assert shared_out(weights, 2)[:2] == [[3], [1]]


@given(st.lists(st.integers(0, 4 * SHARED_TASK), max_size=60), st.integers(1, 16))
def test_every_group_is_in_one_task_and_none_is_idle(weights: list[int], least: int) -> None:
    found = shared_out(weights, least)
    assert sorted(place for some in found for place in some) == list(range(len(weights)))
    assert all(found)
    loads = [sum(weights[place] for place in some) for some in found]
    # A task is heavier than its share only by one group.
    assert not loads or max(loads) <= sum(weights) / len(found) + max(weights) + len(weights)
