"""Outcomes are written beside the next batch's work: late by one batch at most, and never forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.model.errors import StateError, TooManyAbsentError
from lakewarden.steps.apply import removal
from tests.steps.apply.test_crash import Crash, check_end_state, crashing
from tests.support.worlds import MakeWorld, hand_plan


def test_a_crash_leaves_at_most_two_batches_open(world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of("sales.orders", orphans=2, batch_size=2)
    plan = hand_plan(world)
    journal = world.warden._deployment.ledger.journal
    with monkeypatch.context() as patched:
        crashing(patched, journal, "outcomes", after=False, on_call=2)
        with pytest.raises(Crash):
            world.apply(plan)
    [run] = world.warden.runs()
    assert len(world.warden.run_detail(run["run_id"])["open_batches"]) == 2
    assert sum(path.exists() for path in world.planted()) == 6
    assert world.apply(plan).deleted.files == 12
    check_end_state(world)


def test_the_intent_is_there_before_the_delete(world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of("sales.orders", orphans=2, batch_size=2)
    plan = hand_plan(world)
    journal, door = world.warden._deployment.ledger.journal, removal.delete

    def delete(permit: Any, stores: Any, files: Any, *rest: Any, **more: Any) -> Any:
        announced = {file.uri for batch in journal.open_batches(permit.run_id) for file in batch.files}
        assert {file.uri for file in files} <= announced
        return door(permit, stores, files, *rest, **more)

    monkeypatch.setattr(removal, "delete", delete)
    assert world.apply(plan).deleted.files == 12


def test_a_run_whose_last_outcome_was_not_written_is_not_closed(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many files were gone, and the record of that failed: the run stays open and says so when it goes on."""
    world = world_of("sales.orders", orphans=8, batch_size=24)
    plan = hand_plan(world)
    for path in sorted(world.planted())[:20]:
        path.unlink()
    journal = world.warden._deployment.ledger.journal

    def failing(*given: Any, **more: Any) -> None:
        raise StateError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(journal, "outcomes", failing)
        with pytest.raises(StateError):
            world.apply(plan)
    [run] = world.warden.runs()
    assert (run["status"], run["finished_at"]) == ("stopped", None)
    assert sum(path.exists() for path in world.planted()) == 24
    assert world.apply(plan).status == "done"
    check_end_state(world)


def test_a_run_that_stops_has_recorded_what_it_did(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", orphans=8, batch_size=24)
    plan = hand_plan(world)
    for path in sorted(world.planted())[:20]:
        path.unlink()
    with pytest.raises(TooManyAbsentError):
        world.apply(plan)
    [run] = world.warden.runs()
    detail = world.warden.run_detail(run["run_id"])
    assert (detail["open_batches"], detail["outcomes"]["absent"]["files"]) == ([], 20)
