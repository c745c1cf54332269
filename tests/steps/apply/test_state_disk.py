"""A state disk that is full or may not be written to: said by name, with nothing untrue, and over when the disk is well."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden.model.errors import StateUnwritableError
from tests.support.missing import missing
from tests.support.worlds import World, at_batch, hand_plan, make_world

CODE = "LW-STATE-005"
MakeSmall = Callable[..., World]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[MakeSmall]:
    """Makes a world whose state lies on a disk of its own, of a few megabytes."""
    state = tmp_path / "world" / "state"
    state.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(state)], capture_output=True)
    if mounted.returncode:
        missing(RuntimeError("no disk can be mounted here, which these tests need"))
    made: list[World] = []

    def make(**how: object) -> World:
        made.append(make_world(tmp_path / "world", ("sales.orders",), batch_size=2, **how))  # type: ignore[arg-type]
        return made[-1]

    try:
        yield make
    finally:
        for world in made:
            world.close()
        subprocess.run(["umount", "-l", str(state)], check=True)


def fill(world: World) -> Path:
    ballast = world.base / "state" / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue
    return ballast


def remount(world: World, how: str) -> None:
    world.close()
    subprocess.run(["mount", "-o", f"remount,{how}", str(world.base / "state")], check=True)


def test_a_disk_that_is_full_in_mid_run(small: MakeSmall) -> None:
    """Nothing untrue is said of what was changed, and the same process goes on at once when there is room again."""
    world = small(orphans=3)
    plan = hand_plan(world)
    with pytest.raises(StateUnwritableError, match="is full") as stopped:
        world.apply(plan, progress=at_batch(6, lambda: fill(world)))
    gone = sum(not path.exists() for path in world.planted())
    assert 6 <= gone < 18
    assert "othing was changed" not in stopped.value.hint
    # The record of a batch is written while the next one is at work, so it is one behind at most.
    assert re.search("changed [46] files", stopped.value.hint)

    (world.base / "state" / "ballast").unlink()
    began = time.monotonic()
    result = world.apply(plan)
    assert (result.status, result.deleted.files + result.absent) == ("done", 18)
    assert time.monotonic() - began < 20
    assert {record["state"] for record in world.warden.leases()} == {"released"}
    assert world.warden.audit_verify()["ok"]


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_disk_that_is_full_beforehand(small: MakeSmall, command: str) -> None:
    world = small()
    plan = hand_plan(world)
    fill(world)
    words = ("plan", "orphans") if command == "plan" else ("apply", plan.path, "--yes")
    world.close()
    code, answer, err = world.cli(*words)
    assert (code, answer["error"]["code"]) == (1, CODE)
    assert "Traceback" not in err
    assert all(path.exists() for path in world.planted())


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_disk_that_may_not_be_written_to(small: MakeSmall, command: str) -> None:
    world = small()
    plan = hand_plan(world)
    remount(world, "ro")
    words = ("plan", "orphans") if command == "plan" else ("apply", plan.path, "--yes")
    code, answer, err = world.cli(*words)
    remount(world, "rw")
    assert (code, answer["error"]["code"]) == (1, CODE)
    assert "Traceback" not in err
    assert all(path.exists() for path in world.planted())


def test_what_is_on_a_disk_that_may_not_be_written_to_can_be_read(small: MakeSmall) -> None:
    world = small()
    run = world.apply(hand_plan(world))
    world.close()
    remount(world, "ro")
    code, answer, err = world.cli("runs")
    remount(world, "rw")
    assert (code, [found["run_id"] for found in answer["runs"]]) == (0, [run.run_id])
    assert "Traceback" not in err


def test_a_state_on_a_read_only_disk_with_its_database_elsewhere(small: MakeSmall, postgres_url: str) -> None:
    """Whatever the database could take, a plan cannot be written there."""
    world = small(database=postgres_url)
    hand_plan(world)
    remount(world, "ro")
    code, answer, _ = world.cli("plan", "orphans")
    remount(world, "rw")
    assert (code, answer["error"]["code"]) == (1, CODE)


def test_a_state_that_cannot_be_made(tmp_path: Path) -> None:
    world = make_world(tmp_path / "world", ("sales.orders",))
    (world.base / "state").write_text("a file is where the directory should be")
    code, answer, err = world.cli("plan", "orphans")
    assert (code, answer["error"]["code"]) == (1, "LW-STATE-001")
    assert "Traceback" not in err


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("stage", ["list and compare", "write the plan"])
def test_a_disk_that_fills_up_while_a_plan_is_made(small: MakeSmall, stage: str) -> None:
    world = small()

    def full(reached: str, _: int, __: int) -> None:
        if reached == stage:
            fill(world)

    with pytest.raises(StateUnwritableError, match="is full"):
        world.plan(progress=full)
    (world.base / "state" / "ballast").unlink()
    assert world.plan().plan.totals()["changes"] == {"files": 6}
