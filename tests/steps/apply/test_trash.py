"""What lies in the trash is proven when it is put there, when it comes back, and before it goes for good."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.known_table import KnownTable
from lakewarden.steps.observe import mounts
from lakewarden.storage.store import UNLISTABLE
from tests.support.worlds import MakeWorld, World, hand_plan, plant_rows


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    return world_of("sales.orders", "web.clicks", delete_mode="quarantine")


def trash(world: World) -> list[Path]:
    return sorted(path for path in (world.base / "state" / "trash").rglob("*") if path.is_file())


def later(world: World, monkeypatch: pytest.MonkeyPatch, **ahead: int) -> None:
    clock = type(world.warden._deployment.clock)
    now = clock.now

    def moved(self: object) -> datetime:
        return now(self) + timedelta(**ahead)  # type: ignore[arg-type]

    monkeypatch.setattr(clock, "now", moved)


def steps(world: World, run_id: str) -> dict[str, dict[str, object]]:
    return {step["name"]: step["detail"] for step in world.warden.run_detail(run_id)["steps"]}


def test_a_file_that_a_table_took_in_where_it_lies_is_not_purged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = plant_rows(world.table(), "data/part=a/rows-{}.parquet")
    first = world.apply(hand_plan(world, [rows, *world.planted("sales.orders")]))
    (taken,) = [path for path in trash(world) if path.name == rows.name]
    world.table("web.clicks").add_files([f"file://{taken}"])
    before = world.rows()

    later(world, monkeypatch, days=8)
    second = world.apply(hand_plan(world, []))

    assert trash(world) == [taken]
    noted = steps(world, second.run_id)
    assert noted["purge"] == {"run": first.run_id, "files": 6}
    assert noted["purge-kept"] == {"run": first.run_id, "files": [f"file://{taken}"]}
    assert "purged" not in steps(world, first.run_id)
    assert world.rows() == before
    # It is asked again each time, and goes when no snapshot of any table needs it any more.
    world.catalog().drop_table("web.clicks")
    third = world.apply(hand_plan(world, []))
    assert (trash(world), steps(world, third.run_id)["purge"]) == ([], {"run": first.run_id, "files": 1})


@pytest.mark.parametrize("how", ["through a link", "through a second mount", "where it came from"])
def test_a_file_that_a_table_needs_by_another_address_is_not_purged(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A table reads the copy by a link or a mount that leads to the trash; or a slow writer commits the file after it went
    there."""
    rows = plant_rows(world.table(), "data/part=a/rows-{}.parquet")
    whole = rows.read_bytes()
    first = world.apply(hand_plan(world, [rows]))
    (taken,) = trash(world)
    if how == "through a link":
        link = world.base / "alias"
        link.symlink_to(world.base / "state")
        world.table("web.clicks").add_files([f"file://{link}/{taken.relative_to(world.base / 'state')}"])
    elif how == "through a second mount":
        # Mounting takes rights that a test may not have: the same files lie there, and the kernel's table says why.
        shutil.copytree(world.base / "state", world.base / "second")
        told = world.base / "mountinfo"
        told.write_text(
            f"27 1 1:0 / / rw - ext4 d rw\n30 27 1:0 {world.base}/state {world.base}/second rw - ext4 d rw\n"
        )
        monkeypatch.setattr(mounts, "TABLE", told)
        world.table("web.clicks").add_files([f"file://{world.base}/second/{taken.relative_to(world.base / 'state')}"])
    else:
        rows.write_bytes(whole)
        world.table("web.clicks").add_files([f"file://{rows}"])
        rows.unlink()

    later(world, monkeypatch, days=8)
    second = world.apply(hand_plan(world, []))

    assert trash(world) == [taken]
    assert steps(world, second.run_id)["purge-kept"] == {"run": first.run_id, "files": [f"file://{taken}"]}


def test_what_is_restored_already_is_told_so(world: World) -> None:
    run = world.apply(hand_plan(world, world.planted("sales.orders")))
    world.warden.restore(run.run_id)
    again = world.warden.restore(run.run_id)
    assert (again.status, again.changed, again.failed) == ("done", {"restored": 0}, ())


def test_nothing_is_purged_while_a_table_cannot_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.apply(hand_plan(world, world.planted("sales.orders")))
    damaged = world.table("web.clicks").current_snapshot()
    assert damaged is not None
    Path(damaged.manifest_list.removeprefix("file://")).write_bytes(b"")
    later(world, monkeypatch, days=8)
    second = world.apply(hand_plan(world, []))
    assert len(trash(world)) == 6
    assert "web.clicks cannot be read" in str(steps(world, second.run_id)["purge-failed"]["message"])


def test_nothing_is_purged_while_a_table_is_missing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its catalog came up without it: what the table took in where it lies, nobody can ask."""
    world.apply(hand_plan(world, world.planted("sales.orders")))
    deployment = world.warden._deployment
    gone = KnownTable("lake.gone.t", "u", 1, 1, (), deployment.clock.now(), roots=("file:///elsewhere/t/",))
    deployment.ledger.known_tables.record([gone])
    later(world, monkeypatch, days=8)
    second = world.apply(hand_plan(world, []))
    assert len(trash(world)) == 6
    assert "lake.gone.t is not listed" in str(steps(world, second.run_id)["purge-failed"]["message"])


def test_a_trash_that_cannot_be_listed_is_not_recorded_as_purged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.apply(hand_plan(world, world.planted("sales.orders")))
    later(world, monkeypatch, days=8)
    with monkeypatch.context() as away:
        away.setattr("lakewarden.storage.walk.walk", _raise)
        second = world.apply(hand_plan(world, []))
    assert len(trash(world)) == 6
    assert "purged" not in steps(world, first.run_id)
    assert UNLISTABLE in str(steps(world, second.run_id)["purge-failed"]["message"])


def _raise(*_: object, **__: object) -> None:
    raise StoreUnavailableError("the disk is away")


def test_a_copy_that_somebody_changed_is_not_restored(world: World) -> None:
    run = world.apply(hand_plan(world, world.planted("sales.orders")))
    changed, *_ = trash(world)
    changed.write_bytes(b"\1" * changed.stat().st_size)
    back = world.warden.restore(run.run_id)
    assert (back.status, back.changed) == ("partial", {"restored": 5})
    assert [failure.code for failure in back.failed] == ["LW-STORE-009"]
    assert str(changed) in back.failed[0].message
    assert [path.name for path in world.planted("sales.orders") if not path.exists()] == [changed.name]
