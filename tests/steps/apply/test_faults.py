"""What goes wrong while files are deleted: each fault has its outcome, and nothing is half-recorded."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import lakewarden
from lakewarden.model.errors import (
    CatalogUnavailableError,
    FrozenError,
    LeaseHeldError,
    LeaseLostError,
    MissingStoreError,
    StaleValidationError,
    TooManyAbsentError,
)
from lakewarden.model.policy import DeleteMode
from lakewarden.model.ports import FileOutcome, Heartbeat
from lakewarden.model.table import Pointer
from lakewarden.steps.apply import removal, revalidate
from lakewarden.steps.apply.pace import LONGEST_PAUSE, Pace
from tests.support.lakes import age
from tests.support.worlds import MakeWorld, World, at_batch, hand_plan, plant_rows


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    return world_of("sales.orders", batch_size=2)


def steps(world: World) -> list[str]:
    return [step["name"] for step in world.warden.run_detail(world.warden.runs()[0]["run_id"])["steps"]]


def goes_on(world: World, plan: Any) -> None:
    """After the fault has passed, the same apply finishes the run as if nothing had been."""
    result = world.apply(plan)
    assert (result.status, result.deleted.files, result.absent) == ("done", len(world.planted()), 0)
    assert not any(path.exists() for path in world.planted())
    assert len(world.warden.runs()) == 1
    assert not world.lost()
    assert world.warden.audit_verify()["ok"]


def test_a_file_that_was_replaced_is_kept(world: World) -> None:
    plan = hand_plan(world)
    path = sorted(world.planted())[3]
    path.write_bytes(b"another writer's bytes")
    same_size = sorted(world.planted())[4]
    same_size.write_bytes(b"\1" * 64)
    result = world.apply(plan)
    assert path.read_bytes() == b"another writer's bytes"
    assert same_size.exists()
    assert (result.status, result.deleted.files, result.kept["revalidated"]) == ("done", 4, 2)
    outcomes = world.warden.run_detail(result.run_id)["outcomes"]
    assert {name: tally["files"] for name, tally in outcomes.items()} == {"deleted": 4, "changed": 2}


def test_a_file_that_is_gone_is_absent(world: World) -> None:
    plan = hand_plan(world)
    sorted(world.planted())[0].unlink()
    result = world.apply(plan)
    assert (result.status, result.deleted.files, result.absent) == ("done", 5, 1)


def test_many_absent_files_stop_the_run(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", orphans=20, batch_size=30)
    plan = hand_plan(world)
    for path in sorted(world.planted())[:24]:
        path.unlink()
    with pytest.raises(TooManyAbsentError, match="24 of 30"):
        world.apply(plan)
    assert sum(path.exists() for path in world.planted()) == 90
    run = world.warden.runs()[0]
    assert (run["status"], run["result"]["absent"], run["result"]["deleted"]["files"]) == ("partial", 24, 6)
    assert world.warden.audit_verify()["ok"]


@pytest.mark.parametrize("left", ["nothing", "an empty directory"])
@pytest.mark.parametrize("moment", ["before apply", "between batches"])
def test_a_root_that_goes_away(world: World, left: str, moment: str) -> None:
    """An unmounted disk shows nothing, or the empty directory it was mounted on: no file is absent because of it."""
    root = Path(world.table().location().removeprefix("file://"))
    aside = world.base / "aside"
    plan = hand_plan(world)

    def unmount() -> None:
        root.rename(aside)
        if left == "an empty directory":
            root.mkdir()

    if moment == "before apply":
        unmount()
        with pytest.raises(MissingStoreError):
            world.apply(plan)
    else:
        with pytest.raises(MissingStoreError):
            world.apply(plan, progress=at_batch(2, unmount))
    run = world.warden.run_detail(world.warden.runs()[0]["run_id"])
    assert run["outcomes"].keys() <= {"deleted"}
    assert run["open_batches"] == []
    assert steps(world)[-1] == "stopped"
    if root.exists():
        shutil.rmtree(root)
    aside.rename(root)
    goes_on(world, plan)


def test_files_that_may_not_be_deleted_fail_and_the_rest_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = hand_plan(world)
    stuck = sorted(world.planted())[1]
    unlink = os.unlink

    def guarded(name: Any, **where: Any) -> None:
        if str(name) == stuck.name:
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(name, **where)

    monkeypatch.setattr(os, "unlink", guarded)
    result = world.apply(plan)
    assert (result.status, result.exit_code, result.deleted.files) == ("partial", 3, 5)
    assert [(f.uri, f.code) for f in result.failed] == [(f"file://{stuck}", f"errno-{errno.EACCES}")]
    assert stuck.exists()
    assert world.warden.runs()[0]["status"] == "partial"
    assert world.warden.audit_verify()["ok"]


def test_failures_before_a_crash_are_in_the_result_of_the_resumed_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = hand_plan(world)
    stuck = sorted(world.planted())[0]
    unlink = os.unlink

    def guarded(name: Any, **where: Any) -> None:
        if str(name) == stuck.name:
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(name, **where)

    def crash() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", guarded)
        with pytest.raises(KeyboardInterrupt):
            world.apply(plan, progress=at_batch(2, crash))
    result = world.apply(plan)
    assert (result.status, len(result.failed), result.deleted.files) == ("partial", 1, 5)


def test_throttling_slows_the_pace() -> None:
    pace = Pace(batch_size=10, concurrency=1, rest=0.1, mode=DeleteMode.REMOVE)
    slow, fine = [FileOutcome("u", "failed", "SlowDown", "")], [FileOutcome("u", "deleted")]
    waits = []
    for outcomes in [fine, slow, slow, slow, fine, fine, *[slow] * 10, *[fine] * 20]:
        pace.learn(outcomes)
        waits.append(pace.pause)
    assert waits[:6] == [0.0, 0.5, 1.0, 2.0, 1.0, 0.5]
    assert waits[15] == LONGEST_PAUSE
    assert waits[-1] == 0.0


def test_a_throttling_store_is_given_time_between_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = hand_plan(world)
    slept: list[float] = []
    monkeypatch.setattr(type(world.warden._deployment.clock), "sleep", lambda self, seconds: slept.append(seconds))
    real = removal.delete

    def throttled(permit: Any, stores: Any, files: Sequence[Any], *rest: Any, **more: Any) -> list[FileOutcome]:
        if not slept:
            return [FileOutcome(file.uri, "failed", "SlowDown", "Please reduce your request rate") for file in files]
        return real(permit, stores, files, *rest, **more)

    monkeypatch.setattr(removal, "delete", throttled)
    result = world.apply(plan)
    assert slept[0] == 0.5
    assert slept[1] == 0.25
    assert (result.status, len(result.failed), result.deleted.files) == ("partial", 2, 4)


def test_a_freeze_stops_before_the_next_batch(world: World) -> None:
    plan = hand_plan(world)
    with pytest.raises(FrozenError):
        world.apply(plan, progress=at_batch(2, lambda: world.warden.freeze(reason="incident")))
    assert sum(path.exists() for path in world.planted()) == 4
    assert [run["status"] for run in world.warden.runs()] == ["stopped"]
    world.warden.unfreeze()
    goes_on(world, plan)
    assert [run["status"] for run in world.warden.runs()] == ["done"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM lw_journal WHERE seq >= 1", "its tail was cut or changed"),
        ("DELETE FROM lw_journal", "its tail was cut or changed"),
        ("DELETE FROM lw_steps WHERE name = 'stopped'", "when it stopped is missing or changed"),
    ],
)
def test_a_tail_that_is_cut_from_a_stopped_run_shows(world: World, statement: str, words: str) -> None:
    """Nobody may ever go on with it, so its end would never be kept."""
    plan = hand_plan(world)
    with pytest.raises(FrozenError):
        world.apply(plan, progress=at_batch(2, lambda: world.warden.freeze(reason="incident")))
    assert world.warden.audit_verify() == {"ok": True, "runs": 1, "problems": []}
    with world.warden._deployment.ledger._connections.write() as connection:
        connection.execute(text(statement))
    (problem,) = world.warden.audit_verify()["problems"]
    assert words in problem


def test_a_run_that_stopped_and_was_gone_on_with_is_whole(world: World) -> None:
    plan = hand_plan(world)
    for files in (2, 4):
        with pytest.raises(FrozenError):
            world.apply(plan, progress=at_batch(files, lambda: world.warden.freeze(reason="incident")))
        world.warden.unfreeze()
    goes_on(world, plan)
    stops = [path.name for path in (world.base / "state/journal-heads").glob("*.stopped-*.json")]
    assert len(stops) == 2
    assert world.warden.audit_verify() == {"ok": True, "runs": 1, "problems": []}


def test_a_lease_that_is_lost_stops_before_the_next_batch(world: World) -> None:
    plan = hand_plan(world)
    deployment = world.warden._deployment

    def steal() -> None:
        deployment.leases.force_release(f"root/{plan.plan.roots[0].prefix}", "test", "somebody")
        for lease in leases:
            with pytest.raises(LeaseLostError):
                lease.renew()

    leases: list[Any] = []
    acquire = deployment.leases.acquire

    def remember(key: str, *rest: Any, **more: Any) -> Any:
        lease = acquire(key, *rest, **more)
        if key.startswith("root/"):
            leases.append(lease)
        return lease

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deployment.leases, "acquire", remember)
        with pytest.raises(LeaseLostError):
            world.apply(plan, progress=at_batch(2, steal))
    assert sum(path.exists() for path in world.planted()) == 4
    goes_on(world, plan)


def test_two_that_apply_one_plan_at_once(world_of: MakeWorld) -> None:
    """The second must not take the first for a crashed one, nor end its run: not even between two roots' leases."""
    world = world_of(batch_size=2)
    plan = hand_plan(world)
    seen: list[type[Exception]] = []

    def second() -> None:
        other = lakewarden.open(str(world.config))
        try:
            other.apply(plan.path, wait=0)
        except LeaseHeldError as error:
            seen.append(type(error))
        finally:
            other.close()

    result = world.apply(plan, progress=at_batch(6, second))
    assert seen == [LeaseHeldError]
    assert (result.status, result.deleted.files) == ("done", 12)
    assert len(world.warden.runs()) == 1


def test_a_catalog_that_falls_silent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = hand_plan(world)
    catalog = world.warden._deployment.formats["lake"]

    def silent() -> list[Pointer]:
        raise CatalogUnavailableError("no answer")

    def fall_silent() -> None:
        monkeypatch.setattr(catalog, "pointers", silent)

    with pytest.raises(CatalogUnavailableError):
        world.apply(plan, progress=at_batch(2, fall_silent))
    assert sum(path.exists() for path in world.planted()) == 4
    assert world.warden.run_detail(world.warden.runs()[0]["run_id"])["open_batches"] == []
    monkeypatch.undo()
    goes_on(world, plan)


def test_a_validation_that_took_long_is_made_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with thousands of new manifests takes minutes once; a run that could never start would help nobody."""
    plan = hand_plan(world)
    check = revalidate.Revalidation.check
    ages = iter([0.0, 40.0, 40.0, 0.0, *[0.0] * 10])
    monkeypatch.setattr(revalidate.Revalidation, "check", lambda self: check(self) - next(ages))
    assert world.apply(plan).deleted.files == 6


def test_a_validation_that_stays_old_deletes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = hand_plan(world)
    check = revalidate.Revalidation.check
    with monkeypatch.context() as patched:
        patched.setattr(revalidate.Revalidation, "check", lambda self: check(self) - 40)
        with pytest.raises(StaleValidationError):
            world.apply(plan)
    assert all(path.exists() for path in world.planted())
    goes_on(world, plan)


def test_a_writer_at_work_keeps_its_files(world: World) -> None:
    """Files that were begun since the heartbeat did stay; older ones under the same prefix go."""
    old, own = plant_rows(world.table(), first=1), plant_rows(world.table(), first=2)
    since = datetime.now(UTC) - timedelta(days=20)
    age([own], 15 * 86_400)
    plan = hand_plan(world, [old, own])
    deployment = world.warden._deployment
    beat = Heartbeat("flink-1", "lake.sales.orders", f"{world.table().location()}/", since, deployment.clock.now(), 300)
    deployment.ledger.heartbeats.beat(beat)
    result = world.apply(plan)
    assert (old.exists(), own.exists()) == (False, True)
    assert (result.deleted.files, result.kept["revalidated"]) == (1, 1)


def test_a_heartbeat_covers_files_begun_under_it(world: World) -> None:
    with world.warden.heartbeat("lake.sales.orders", writer="job-7"):
        fresh = plant_rows(world.table(), first=9)
        os.utime(fresh)
        result = world.apply(hand_plan(world, [*world.planted(), fresh]))
    assert fresh.exists()
    assert (result.deleted.files, result.kept["revalidated"]) == (6, 1)


def test_a_writer_that_commits_and_stops_beating_within_one_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeat ends right after the pointers were read: had they been asked in the other order, both would miss it."""
    own = plant_rows(world.table(), first=5)
    plan = hand_plan(world, [own])
    deployment = world.warden._deployment
    since = datetime.now(UTC) - timedelta(days=40)
    beat = Heartbeat("w", "lake.sales.orders", f"{world.table().location()}/", since, deployment.clock.now(), 300)
    deployment.ledger.heartbeats.beat(beat)
    catalog = deployment.formats["lake"]
    read: Callable[[], Any] = catalog.pointers

    def commits_after() -> Any:
        # The second time the pointers are asked for: the batch's own validation.
        nonlocal asked
        answer = read()
        asked += 1
        if asked == 2:
            world.table().add_files([f"file://{own}"])
            deployment.ledger.heartbeats.end(beat)
        return answer

    asked = 0
    monkeypatch.setattr(catalog, "pointers", commits_after)
    world.apply(plan)
    assert asked > 2
    assert own.exists()
    assert not world.lost()
