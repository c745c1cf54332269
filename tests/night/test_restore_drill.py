"""The restore drill: what is put away is proven to come back, and nothing but the drill's own place is touched."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest

from lakewarden.cli.run_text import show_drill
from lakewarden.cli.screen import Screen
from lakewarden.model.actor import Actor
from lakewarden.model.drill import DrillStatus
from lakewarden.model.errors import Exit, FrozenError, LeaseHeldError
from lakewarden.steps.apply import drill
from tests.support.worlds import MakeWorld, World, hand_plan

ADA = Actor("ada", "host-1")


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    return world_of("sales.orders", delete_mode="quarantine")


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kept(world: World) -> tuple[dict[str, bytes], dict[str, bytes], dict[str, bytes]]:
    """Everything that a drill must leave as it is: the lake, the trash, and that nothing stays of the drill."""
    state = world.base / "state"
    return files_in(world.base / "lake"), files_in(state / "trash"), files_in(state / "drills")


def metrics(world: World) -> dict[str, float]:
    lines = world.warden.metrics().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if "restore_drill" in line[:30]}


SUCCESS = 'lakewarden_restore_drill_success_timestamp_seconds{place="quarantine"}'
FAILURES = 'lakewarden_restore_drill_failures_total{place="quarantine"}'


def test_where_nothing_is_put_away_a_file_of_its_own_goes_and_comes_back(world: World) -> None:
    before = kept(world)
    found = world.warden.restore_drill()
    assert [(one.place, one.status, one.files, one.bytes) for one in found.drills] == [
        ("quarantine", "proven", 1, len(drill.MADE_UP)),
        ("cold", "untried", 0, 0),
    ]
    assert "nothing lies in quarantine" in found.drills[0].what
    assert found.exit_code is Exit.DONE
    assert kept(world) == before
    assert metrics(world)[SUCCESS] == pytest.approx(world.warden._deployment.clock.now().timestamp(), abs=60)
    assert metrics(world)[FAILURES] == 0


def test_the_smallest_file_in_quarantine_is_proven_and_stays_there(world: World) -> None:
    planted = world.planted("sales.orders")
    sizes = {path: path.stat().st_size for path in planted}
    run = world.apply(hand_plan(world, planted))
    before = kept(world)
    assert before[1]
    found = world.warden.restore_drill().drills[0]
    assert found.status is DrillStatus.PROVEN
    assert found.bytes == min(size for size in sizes.values() if size)
    assert found.what.endswith(f"of run {run.run_id}")
    assert kept(world) == before
    assert world.warden.restore(run.run_id).changed == {"restored": len(planted)}


@pytest.mark.parametrize("how", ["rotten", "gone"])
def test_what_is_not_there_any_more_is_told_and_counted(world: World, how: str) -> None:
    world.apply(hand_plan(world, world.planted("sales.orders")))
    for path in (world.base / "state" / "trash").rglob("*"):
        if path.is_file() and how == "rotten":
            path.write_bytes(bytes(255 - one for one in path.read_bytes()))
        elif path.is_file():
            path.unlink()
    before = kept(world)
    code, told, _ = world.cli("restore", "--drill", "--output", "json")
    assert code == Exit.FAILED
    first = told["drills"][0]
    assert (told["status"], first["status"], first["error"]["code"]) == ("failed", "failed", "LW-RESTORE-002")
    assert ("is not in the trash any more" if how == "gone" else "does not have the bytes") in first["error"]["message"]
    assert kept(world) == before
    assert metrics(world)[FAILURES] == 1
    assert SUCCESS not in metrics(world)


def test_what_a_drill_left_that_died_is_cleared_by_the_next(world: World) -> None:
    for folder in ("trash", "drills"):
        left = world.base / "state" / folder / drill.DRILL / "quarantine" / "file"
        left.parent.mkdir(parents=True)
        left.write_bytes(b"left behind")
    other = world.base / "state" / "drills" / "somebody" / "else"
    other.parent.mkdir()
    other.write_bytes(b"not a drill's")
    assert world.warden.restore_drill().exit_code is Exit.DONE
    assert kept(world)[1:] == ({}, {"somebody/else": b"not a drill's"})


def test_a_copy_that_cannot_be_removed_fails_the_drill(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restoring without having lost the file would prove nothing."""
    real = drill.purge
    asked: list[str] = []

    def purge(stores: object, place: str, *rest: object, **more: object) -> object:
        asked.append(place)
        return iter(()) if len(asked) == 3 else real(stores, place, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(drill, "purge", purge)
    found = world.warden.restore_drill().drills[0]
    assert found.error is not None
    assert "is still there after it was removed" in found.error["message"]


def test_no_drill_is_made_while_frozen_nor_beside_another(world: World) -> None:
    world.warden.freeze(ADA, "an incident")
    with pytest.raises(FrozenError, match="no drill was made"):
        world.warden.restore_drill()
    world.warden.unfreeze(ADA)
    with world.warden._deployment.leases.acquire(f"drill/{drill.DRILL}", 60), pytest.raises(LeaseHeldError):
        world.warden.restore_drill(wait=0)
    assert not (world.base / "state" / "drills").exists()


def test_the_words_of_a_drill(world: World) -> None:
    said = StringIO()
    show_drill(Screen(said), world.warden.restore_drill())
    assert said.getvalue().splitlines() == [
        "proven quarantine  a file of the drill's own; nothing lies in quarantine: 1 file, 64.0 KiB, came back as it went",
        "untried cold  nothing has been handed to a cold tier",
        "done; no table was changed",
    ]
    assert world.exit_code("restore", "--drill", "some-run") == Exit.USAGE


def test_a_result_is_plain_json(world: World) -> None:
    assert json.loads(json.dumps(world.warden.restore_drill().as_json()))["status"] == "done"
