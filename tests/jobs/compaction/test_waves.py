"""How many groups are rewritten before it is looked whether the run may go on."""

from __future__ import annotations

from lakewarden.jobs.compaction.run import BYTES_A_WAVE, GROUPS_A_WAVE, _waves


def waves(*sizes: int) -> list[int]:
    orders = [{"group": str(number)} for number in range(len(sizes))]
    found = list(_waves(orders, {str(number): size for number, size in enumerate(sizes)}))
    assert [order for wave in found for order in wave] == orders
    return [len(wave) for wave in found]


def test_small_groups_go_all_at_once() -> None:
    assert waves(*[1000] * 60) == [60]


def test_large_groups_go_a_few_at_a_time() -> None:
    assert waves(*[BYTES_A_WAVE] * (2 * GROUPS_A_WAVE + 1)) == [GROUPS_A_WAVE, GROUPS_A_WAVE, 1]


def test_no_group_is_no_wave() -> None:
    assert waves() == []
