"""delete_mode = "quarantine": into the trash, back from it, and out of it when the days are over."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.ledger.leases import Leases
from lakewarden.model.errors import LeaseHeldError, NotFoundError, RestoreError
from lakewarden.steps.apply import removal, revalidate
from lakewarden.steps.apply import restore as restoring
from lakewarden.storage.quarantine import trash_address
from tests.support.worlds import MakeWorld, World, at_batch, hand_plan


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    return world_of("sales.orders", batch_size=2, delete_mode="quarantine")


def trash(world: World) -> set[Path]:
    return {path for path in (world.base / "state" / "trash").rglob("*") if path.is_file()}


def test_files_go_to_the_trash_and_come_back(world: World) -> None:
    content = {path: path.read_bytes() for path in world.planted()}
    before = world.on_disk()
    result = world.apply(hand_plan(world))
    assert (result.status, result.quarantined.files, result.deleted.files, result.changed) == (
        "done",
        6,
        0,
        {"files": 6},
    )
    assert before - world.on_disk() == world.planted()
    kept = {
        Path(trash_address(f"{world.base}/state/trash", result.run_id, str(path)).removeprefix("file://"))
        for path in content
    }
    assert trash(world) == kept
    roots = [root.prefix for root in world.warden.load_plan(_path(world)).plan.roots]
    assert not any(f"file://{path}".startswith(root) for path in kept for root in roots)

    taken = sorted(content)[0]
    taken.write_bytes(b"somebody else's")
    back = world.warden.restore(result.run_id)
    assert (back.status, back.changed, [f.uri for f in back.failed]) == (
        "partial",
        {"restored": 5},
        [f"file://{taken}"],
    )
    assert taken.read_bytes() == b"somebody else's"
    assert all(path.read_bytes() == content[path] for path in content if path != taken)
    assert world.warden.audit_verify()["ok"]
    # Whoever asks for a file is told who took it away, and who brought it back; never of one that did not come back.
    world.warden.restore(result.run_id)
    told = {path: [(one["outcome"], one["run_id"]) for one in world.warden.audit_who(str(path))] for path in content}
    went, came = ("quarantined", result.run_id), ("restored", back.run_id)
    assert told == {path: [went] if path == taken else [went, came] for path in content}


def _path(world: World) -> str:
    saved = world.warden._deployment.ledger.plans.list()[0]
    assert saved.path is not None
    return saved.path


def test_restore_of_a_run_that_is_unknown_or_kept_nothing(world_of: MakeWorld) -> None:
    world = world_of("sales.orders")
    result = world.apply(hand_plan(world))
    with pytest.raises(RestoreError):
        world.warden.restore(result.run_id)
    with pytest.raises(NotFoundError):
        world.warden.restore("nobody")
    assert len(world.warden.runs()) == 1


def test_a_file_is_copied_before_the_batch_is_validated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying takes its time; a validation that waited for it would be too old to delete by."""
    done: list[str] = []
    copy, check = removal.copy_to_trash, revalidate.Revalidation.check

    def copying(*given: object, **more: object) -> object:
        done.append("copy")
        return copy(*given, **more)  # type: ignore[arg-type]

    def checking(self: revalidate.Revalidation) -> float:
        done.append("check")
        return check(self)

    monkeypatch.setattr(removal, "copy_to_trash", copying)
    monkeypatch.setattr(revalidate.Revalidation, "check", checking)
    world.apply(hand_plan(world))
    assert done == ["check", *["copy", "check"] * 3, "check"]


def test_a_changed_file_is_neither_copied_over_nor_deleted(world: World) -> None:
    plan = hand_plan(world)
    path = sorted(world.planted())[0]
    path.write_bytes(b"new")
    result = world.apply(plan)
    assert (result.quarantined.files, path.read_bytes()) == (5, b"new")


def later(world: World, monkeypatch: pytest.MonkeyPatch, **ahead: int) -> None:
    """Let the deployment's clock go ahead; only what has no store's clock to compare with may be asked then."""
    clock = type(world.warden._deployment.clock)
    now = clock.now

    def moved(self: object) -> datetime:
        return now(self) + timedelta(**ahead)  # type: ignore[arg-type]

    monkeypatch.setattr(clock, "now", moved)


def test_the_trash_is_purged_after_the_days_and_not_before(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.apply(hand_plan(world))
    assert len(trash(world)) == 6

    later(world, monkeypatch, days=6, hours=23)
    world.apply(hand_plan(world, []))
    assert len(trash(world)) == 6

    monkeypatch.undo()
    later(world, monkeypatch, days=7, hours=1)
    second = world.apply(hand_plan(world, []))
    assert trash(world) == set()
    noted = {step["name"]: step["detail"] for step in world.warden.run_detail(second.run_id)["steps"]}
    assert noted["purge"] == {"run": first.run_id, "files": 6}
    assert "purged" in [step["name"] for step in world.warden.run_detail(first.run_id)["steps"]]
    back = world.warden.restore(first.run_id)
    assert (back.changed, len(back.failed)) == ({"restored": 0}, 6)

    third = world.apply(hand_plan(world, []))
    assert "purge" not in [step["name"] for step in world.warden.run_detail(third.run_id)["steps"]]
    assert world.warden.audit_verify()["ok"]


def test_a_trash_that_is_being_restored_is_not_purged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.apply(hand_plan(world))
    deployment = world.warden._deployment
    later(world, monkeypatch, days=8)
    with Leases(deployment.stores, f"{deployment.state}leases/", deployment.clock, "another").acquire(
        f"trash/{first.run_id}", 3
    ):
        assert world.apply(hand_plan(world, [])).status == "done"
        with pytest.raises(LeaseHeldError):
            world.warden.restore(first.run_id)
    assert len(trash(world)) == 6
    assert len(world.warden.runs()) == 2


def test_a_resumed_run_knows_what_it_quarantined(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = hand_plan(world)
    outcomes = world.warden._deployment.ledger.journal.outcomes

    def crash(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.warden._deployment.ledger.journal, "outcomes", crash)
    with pytest.raises(KeyboardInterrupt):
        world.apply(plan)
    monkeypatch.setattr(world.warden._deployment.ledger.journal, "outcomes", outcomes)
    result = world.apply(plan)
    assert (result.status, result.quarantined.files, result.absent) == ("done", 6, 0)
    assert world.warden.restore(result.run_id).changed == {"restored": 6}
    assert all(path.exists() for path in world.planted())


def test_a_file_that_became_needed_in_the_window_is_put_back(world: World) -> None:
    """Between the validation of its batch and the end of the run a commit took it in: verify brings it back."""
    from tests.support.worlds import plant_rows

    own = plant_rows(world.table(), "aaa/first-{}.parquet")
    saved = world.base / "copy.parquet"
    saved.write_bytes(own.read_bytes())
    plan = hand_plan(world, [own, *world.planted()])

    def commit() -> None:
        assert not own.exists()
        own.write_bytes(saved.read_bytes())
        world.table().add_files([f"file://{own}"])
        own.unlink()

    result = world.apply(plan, progress=at_batch(2, commit))
    assert own.exists()
    assert not world.lost()
    assert result.status == "done"
    assert "restored" in [step["name"] for step in world.warden.run_detail(result.run_id)["steps"]]


def test_a_restore_that_is_stopped_is_closed_and_the_same_command_brings_the_rest(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can go on with a run that has no plan, so none is left open."""
    world = world_of("sales.orders", delete_mode="quarantine")
    run = world.apply(hand_plan(world))
    monkeypatch.setattr(restoring, "BATCH", 2)
    bring = restoring.restore
    asked = 0

    def stopping(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise KeyboardInterrupt
        return bring(*given)

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "restore", stopping)
        with pytest.raises(KeyboardInterrupt):
            world.warden.restore(run.run_id)
    stopped = world.warden.run_detail(world.warden.runs()[0]["run_id"])
    assert (stopped["status"], stopped["result"]["changed"]) == ("partial", {"restored": 2})
    assert [step["name"] for step in stopped["steps"]] == ["failed"]
    world.warden.restore(run.run_id)
    assert all(path.exists() for path in world.planted())
    assert all(each["finished_at"] for each in world.warden.runs())
    assert world.warden.audit_verify()["ok"]
