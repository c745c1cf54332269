"""Which groups share a task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.pipeline.rewrite.files import SHARED_TASK, shared_out


def test_small_groups_share_as_few_tasks_as_keep_every_core_busy() -> None:
    found = shared_out([1000] * 50, 2)
    assert (len(found), {len(some) for some in found}) == (8, {6, 7})


def test_no_core_has_nothing_to_do_while_the_last_tasks_are_at_it() -> None:
    """Fifty equal groups in 17 tasks would leave one core of two alone with the last three of them."""
    found = shared_out([SHARED_TASK // 3] * 50, 2)
    assert [len(some) for some in found] == [3] * 14 + [2] * 4
    assert [len(some) for some in shared_out([SHARED_TASK] * 50, 64)] == [1] * 50


def test_large_groups_have_a_task_each_and_go_first() -> None:
    weights = [10, 2 * SHARED_TASK, 10, 3 * SHARED_TASK]
    assert shared_out(weights, 1)[:2] == [[3], [1]]


@given(st.lists(st.integers(0, 4 * SHARED_TASK), max_size=60), st.integers(1, 16))
def test_every_group_is_in_one_task_and_none_is_idle(weights: list[int], cores: int) -> None:
    found = shared_out(weights, cores)
    assert sorted(place for some in found for place in some) == list(range(len(weights)))
    assert all(found)
    loads = [sum(weights[place] for place in some) for some in found]
    # A task is heavier than its share only by one group.
    assert not loads or max(loads) <= sum(weights) / len(found) + max(weights) + len(weights)
