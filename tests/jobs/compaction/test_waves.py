"""How many groups are rewritten before it is looked whether the run may go on, and how long it rests."""

from __future__ import annotations

import pytest

from lakewarden.jobs.compaction import pace
from lakewarden.jobs.compaction.pace import BYTES_A_WAVE, GROUPS_A_WAVE, rest_after


def waves(*sizes: int) -> list[int]:
    orders = [{"group": str(number), "weight": size} for number, size in enumerate(sizes)]
    found = list(pace.waves(orders))
    assert [order for wave in found for order in wave] == orders
    return [len(wave) for wave in found]


def test_small_groups_go_all_at_once() -> None:
    assert waves(*[1000] * 60) == [60]


def test_large_groups_go_a_few_at_a_time() -> None:
    assert waves(*[BYTES_A_WAVE] * (2 * GROUPS_A_WAVE + 1)) == [GROUPS_A_WAVE, GROUPS_A_WAVE, 1]


def test_no_group_is_no_wave() -> None:
    assert waves() == []


@pytest.mark.parametrize(
    ("worked", "moved", "share", "rate", "rest"),
    [
        (3.0, 10**9, 0.3, 0, 7.0),
        (3.0, 10**9, 1.0, 0, 0.0),
        (3.0, 300, 0.5, 100, 3.0),  # three hundred bytes at fifty a second take six seconds
        (9.0, 300, 0.5, 100, 0.0),
    ],
)
def test_a_run_keeps_to_its_share_of_the_rate(worked: float, moved: int, share: float, rate: int, rest: float) -> None:
    assert rest_after(worked, moved, share, rate) == pytest.approx(rest)
