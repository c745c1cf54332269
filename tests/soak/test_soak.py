"""The long versions: a hundred kills, and ten minutes beside a writer."""

from __future__ import annotations

import pytest

from tests.steps.apply.test_crash import kill_and_resume
from tests.steps.apply.writers import clean_while_writing
from tests.support.worlds import MakeWorld, hand_plan

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore:Delete operation did not match")]
KILLS = 100
KILLS_A_WORLD = 10


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["remove", "quarantine"])
def test_a_hundred_kills(world_of: MakeWorld, mode: str) -> None:
    hits = seed = 0
    while hits < KILLS // 2:
        seed += 1
        world = world_of(orphans=40, batch_size=3, rate_limit_ms=25, delete_mode=mode)
        before = world.on_disk()
        hits += kill_and_resume(world, hand_plan(world), KILLS_A_WORLD, seed, quarantine=mode == "quarantine")
        assert before - world.on_disk() == world.planted()


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("spark")
def test_ten_minutes_beside_a_writer(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", "web.clicks", batch_size=2)
    commits, deleted = clean_while_writing(world, seconds=600, seed=7)
    assert commits > 100
    assert deleted > 20


@pytest.mark.timeout(3600)
def test_kills_with_the_state_in_postgresql(world_of: MakeWorld, postgres_url: str) -> None:
    world = world_of(orphans=20, batch_size=3, rate_limit_ms=25, database=postgres_url)
    assert kill_and_resume(world, hand_plan(world), 10, seed=3) >= 5
