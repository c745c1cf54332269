"""Tables dropped between plan and apply, their directories with them: their files stop nobody else's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden.model.errors import FrozenError, MissingStoreError, PlanOutdatedError
from lakewarden.model.run import RunResult
from tests.support.lakes import local_path
from tests.support.worlds import MakeWorld, World, at_batch, hand_plan

ORDERS, CLICKS = "sales.orders", "web.clicks"
BATCH = 4  # of six files each: the second batch holds files of both tables


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    return world_of(batch_size=BATCH)


def dropping(world: World, *, above: bool = False) -> Callable[[], None]:
    """Drop the table, and remove its directory, or the one above it."""
    location = local_path(world.table(ORDERS).location())

    def drop() -> None:
        world.catalog().drop_table(ORDERS)
        shutil.rmtree(location.parent if above else location)

    return drop


def check(world: World, result: RunResult, kept: int) -> None:
    """The other table's files are gone, and the dropped one's are kept and named."""
    assert not any(path.exists() for path in world.planted(CLICKS))
    assert (result.status, result.exit_code, result.absent) == ("partial", 3, 0)
    assert (result.deleted.files, result.kept["revalidated"]) == (12 - kept, kept)
    (left,) = result.failed
    assert (left.code, Path(left.uri.removeprefix("file://")).name) == (PlanOutdatedError.code, "orders")
    assert not world.lost()
    assert world.warden.audit_verify()["ok"]


@pytest.mark.parametrize("done", [0, BATCH], ids=["before apply", "between batches"])
def test_only_its_own_root_is_left_alone(world: World, done: int) -> None:
    plan = hand_plan(world)
    drop = dropping(world)
    if not done:
        drop()
    check(world, world.apply(plan, progress=at_batch(done, drop) if done else lambda *_: None), 6 - done)


def test_a_directory_that_is_left_empty(world: World) -> None:
    """As a bucket shows it, which has no directories: nothing is absent in a root that nothing is left in."""
    plan = hand_plan(world)
    location = local_path(world.table(ORDERS).location())
    dropping(world)()
    location.mkdir()
    check(world, world.apply(plan), 6)


def test_a_run_that_goes_on_after_the_drop_keeps_its_batches(world: World) -> None:
    plan = hand_plan(world)
    with pytest.raises(FrozenError):
        world.apply(plan, progress=at_batch(BATCH, lambda: world.warden.freeze(reason="incident")))
    dropping(world)()
    world.warden.unfreeze()
    check(world, world.apply(plan), 2)
    (run,) = world.warden.runs()
    assert world.warden.run_detail(run["run_id"])["open_batches"] == []


def test_a_directory_above_that_is_gone_too_is_an_outage(world: World) -> None:
    """A catalog that is a directory forgets its tables when its disk is not mounted."""
    plan = hand_plan(world)
    dropping(world, above=True)()
    with pytest.raises(MissingStoreError):
        world.apply(plan)
    assert all(path.exists() for path in world.planted(CLICKS))
    assert world.warden.runs()[0]["finished_at"] is None
