"""Whatever ends a run early, its words are true: what was changed is said, and nobody says that nothing was."""

from __future__ import annotations

import inspect
import re

import pytest

from lakewarden.ledger.lease import Lease
from lakewarden.model import errors
from lakewarden.model.errors import (
    CatalogUnavailableError,
    LakewardenError,
    LeaseHeldError,
    LeaseLostError,
    NoConditionsError,
    StoreUnavailableError,
    TooManyAbsentError,
    without_claim,
)
from tests.support.worlds import MakeWorld, at_batch, hand_plan

UNTRUE = re.compile(r"nothing was (planned or )?(changed|touched|done)\b", re.IGNORECASE)
KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LakewardenError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_error_says_that_nothing_was_changed_after_something_was(kind: type[LakewardenError]) -> None:
    given = [{}] if kind is errors.LostRefError else []
    error = kind("the store is away; nothing was planned or changed", *given)
    assert error.says_unchanged
    error.after("The run had changed 3 files.")
    assert (error.message, error.done) == ("the store is away", "The run had changed 3 files.")
    assert error.hint.startswith("The run had changed 3 files. ")
    assert not UNTRUE.search(f"{error.message} {error.hint}"), error.hint


def test_only_the_last_words_are_a_claim() -> None:
    assert without_claim("it is gone; nothing was changed", "no more of it") == "it is gone; no more of it"
    assert without_claim("t is gone; nothing of it was changed", "no more of it") == "t is gone; no more of it"
    assert without_claim("nothing was changed before; it is gone") == "nothing was changed before; it is gone"


@pytest.mark.parametrize(
    ("error", "closes"),
    [
        (LeaseLostError("lost"), False),
        (LeaseHeldError("held; nothing was done"), False),
        (StoreUnavailableError("away; nothing was changed"), False),
        (CatalogUnavailableError("silent; nothing was planned or changed"), False),
        (NoConditionsError("ignored"), True),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_run_that_is_stopped_half_way_says_what_it_had_changed(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch, error: LakewardenError, closes: bool
) -> None:
    world = world_of(batch_size=4)
    plan = hand_plan(world)

    def stop(_: Lease) -> None:
        raise error

    with pytest.raises(type(error)) as found, monkeypatch.context() as patch:
        world.apply(plan, progress=at_batch(4, lambda: patch.setattr(Lease, "check", stop)))
    told = f"{found.value.message} {found.value.hint}"
    assert "By its record the run had changed 4 files until then" in told
    assert not UNTRUE.search(told)
    run = world.warden.runs()[0]
    assert (run["finished_at"] is not None) is closes
    assert ("apply goes on" in told or "apply again" in told) is not closes
    steps = world.warden.run_detail(run["run_id"])["steps"]
    assert not UNTRUE.search(steps[-1]["detail"]["message"])


def test_a_restore_that_is_stopped_says_what_it_brought_back(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(delete_mode="quarantine")
    run = world.apply(hand_plan(world))
    monkeypatch.setattr("lakewarden.steps.apply.restore.BATCH", 5)
    seen: list[object] = []

    def stop(_: Lease) -> None:
        seen.append(1)
        if len(seen) > 1:
            raise LeaseLostError("lost")

    monkeypatch.setattr(Lease, "check", stop)
    with pytest.raises(LeaseLostError) as found:
        world.warden.restore(run.run_id)
    assert "the run had brought back 5 files until then" in found.value.hint


def test_files_that_another_run_of_ours_took_are_laid_to_its_door(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", orphans=5, batch_size=30)
    first, second = hand_plan(world), hand_plan(world)
    run = world.apply(first)
    with pytest.raises(TooManyAbsentError, match=f"Run {run.run_id} of this deployment took them"):
        world.apply(second)


def test_a_lease_that_a_run_of_ours_holds_names_the_run(world_of: MakeWorld) -> None:
    world = world_of(batch_size=4)
    plan, other = hand_plan(world), hand_plan(world)
    told: list[LeaseHeldError] = []

    def meanwhile() -> None:
        for one in (plan, other):
            with pytest.raises(LeaseHeldError) as found:
                world.apply(one, wait=0.0)
            told.append(found.value)

    run = world.apply(plan, progress=at_batch(4, meanwhile))
    for error in told:
        assert f"It is run {run.run_id} of this deployment" in error.message
        assert run.run_id in error.hint
