"""What became of a plan: by the ledger, for every end that a plan can have."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.model.actor import Actor
from lakewarden.model.errors import FrozenError, PlanExpiredError, PlanUsedError
from lakewarden.model.run import PlanResult
from lakewarden.model.standing import PlanState, Standing
from tests.support.worlds import MakeWorld, World, at_batch, hand_plan


def standing(world: World, plan: PlanResult) -> Standing:
    return world.warden.standing(plan.plan)


def test_a_plan_is_ready_then_used_by_a_run_with_a_result(world: World) -> None:
    plan = hand_plan(world)
    assert standing(world, plan) == Standing(PlanState.READY)
    run = world.apply(plan)
    found = standing(world, plan)
    assert (found.state, found.run_id, found.status) == ("used", run.run_id, "done")
    assert str(found.summary).startswith("12 files deleted (")
    assert found.at is not None
    with pytest.raises(PlanUsedError):
        world.apply(plan)


def test_a_frozen_and_an_expired_plan_are_refused_by_apply_too(world: World) -> None:
    plan = hand_plan(world)
    world.warden.freeze(reason="month end")
    assert standing(world, plan).state == "frozen"
    with pytest.raises(FrozenError):
        world.apply(plan)
    world.warden.unfreeze()
    now = world.warden._deployment.clock.now()
    late = hand_plan(world, expires_at=now - timedelta(minutes=1))
    assert standing(world, late) == Standing(PlanState.EXPIRED, at=late.plan.expires_at)
    with pytest.raises(PlanExpiredError):
        world.apply(late)


def test_a_freeze_without_a_reason_leaves_no_colon_behind(world: World) -> None:
    plan = hand_plan(world)
    world.warden.freeze(Actor("ana", "host-1"))
    assert standing(world, plan).why == "ana"
    with pytest.raises(FrozenError, match=r"ana froze this deployment on \S+ \S+ UTC; nothing was done"):
        world.apply(plan)


def test_a_stopped_run_leaves_the_plan_open(world_of: MakeWorld) -> None:
    world = world_of(batch_size=2)
    plan = hand_plan(world)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.apply(plan, progress=at_batch(2, stop))
    found = standing(world, plan)
    assert (found.state, found.status, found.can_be_applied) == ("open", "stopped", True)
    assert world.apply(plan).run_id == found.run_id


def test_another_deployments_plan_and_another_catalogs(world: World, world_of: MakeWorld) -> None:
    other = world_of()
    assert standing(other, hand_plan(world)).state == "foreign"
    plan = hand_plan(world, pointers={"elsewhere.db.t": "s3://b/m.json"})
    assert standing(world, plan).state == "unseen"


def test_nothing_to_do(world: World) -> None:
    assert standing(world, hand_plan(world, orphans=[])).state == "empty"


def test_an_open_plan_says_which_brakes_its_run_goes_on_without(world_of: MakeWorld) -> None:
    world = world_of(batch_size=2)
    plan = hand_plan(world)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.apply(plan, override_brakes=["orphan-share"], progress=at_batch(2, stop))
    assert standing(world, plan).lifted == ("orphan-share",)
    assert "lifted" not in standing(world, plan).as_json()
