"""A real process killed at random, and crashes at the worst two places: the next apply ends as if nothing had been."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden.model.errors import PlanExpiredError, PlanUsedError
from lakewarden.model.run import PlanResult
from lakewarden.steps.apply import ending, removal
from tests.support.worlds import MakeWorld, World, environment, hand_plan


class Crash(BaseException):
    """The process dies here, as far as the code can tell."""


def kill_and_resume(world: World, plan: PlanResult, kills: int, seed: int, quarantine: bool = False) -> int:
    """Kill `lakewarden apply` up to `kills` times at random moments, then let it end; how many kills hit it at work."""
    draw = random.Random(seed)
    hits = 0
    for attempt in range(kills + 1):
        process = subprocess.Popen(
            world.command("apply", plan.path, "--yes"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        if attempt < kills:
            _wait_for_work(world, process)
            time.sleep(draw.uniform(0, 0.25))
            process.send_signal(signal.SIGKILL)
        out, err = process.communicate(timeout=120)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, (out, err)
        [run] = world.warden.runs()
        assert run["finished_at"] or run["status"] == "stopped", "nobody is at work any more"
        hits += 1
    check_end_state(world, quarantine)
    return hits


def _wait_for_work(world: World, process: subprocess.Popen[str]) -> None:
    """Until one more orphan is gone than before this process started, or it ended."""
    before = sum(path.exists() for path in world.planted())
    while process.poll() is None and sum(path.exists() for path in world.planted()) == before:
        time.sleep(0.01)


def check_end_state(world: World, quarantine: bool = False) -> None:
    """What an uninterrupted run would have left: the orphans gone, all else there, one run, a whole journal."""
    assert not any(path.exists() for path in world.planted())
    assert not world.lost()
    [run] = world.warden.runs()
    assert run["status"] == "done"
    detail = world.warden.run_detail(run["run_id"])
    count, size = len(world.planted()), 64 * len(world.planted())
    assert detail["outcomes"] == {"quarantined" if quarantine else "deleted": {"files": count, "bytes": size}}
    assert detail["open_batches"] == []
    assert run["result"]["absent"] == 0
    assert world.warden.audit_verify() == {"ok": True, "runs": 1, "problems": []}
    journalled = {file.uri for file, _ in world.warden._deployment.ledger.journal.outcome_rows(run["run_id"])}
    assert journalled == {f"file://{path}" for path in world.planted()}


def test_a_process_that_is_killed_five_times(world_of: MakeWorld) -> None:
    world = world_of(orphans=12, batch_size=3, rate_limit_ms=25)
    before, rows = world.on_disk(), world.rows()
    hits = kill_and_resume(world, hand_plan(world), kills=5, seed=1)
    assert hits >= 3
    assert before - world.on_disk() == world.planted()
    assert world.rows() == rows


def crashing(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool, on_call: int = 1) -> None:
    """Die before or after the work of one call."""
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def dying(*given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == on_call and not after:
            raise Crash
        answer = real(*given, **more)
        if calls == on_call:
            raise Crash
        return answer

    monkeypatch.setattr(owner, name, dying)


@pytest.mark.parametrize("mode", ["remove", "quarantine"])
@pytest.mark.parametrize(
    "place",
    [f"{when} {what}" for what in ("intent", "delete", "outcomes", "head", "finish") for when in ("before", "after")],
)
def test_a_crash_at_every_step(world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch, place: str, mode: str) -> None:
    world = world_of("sales.orders", orphans=2, batch_size=4, delete_mode=mode)
    plan = hand_plan(world)
    journal = world.warden._deployment.ledger.journal
    when, _, what = place.partition(" ")
    owner, name, call = {
        "intent": (journal, "intent", 2),
        "delete": (removal, "delete", 2),
        "outcomes": (journal, "outcomes", 2),
        "head": (ending, "write_head", 1),
        "finish": (world.warden._deployment.ledger.runs, "finish", 1),
    }[what]
    with monkeypatch.context() as patched:
        crashing(patched, owner, name, after=when == "after", on_call=call)
        with pytest.raises(Crash):
            world.apply(plan)
    if place == "after finish":
        with pytest.raises(PlanUsedError):
            world.apply(plan)
    else:
        assert world.apply(plan).status == "done"
    check_end_state(world, quarantine=mode == "quarantine")


def test_many_files_deleted_in_the_crashed_batch_are_not_somebody_elses(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash after the deletes of a large batch: all of it is gone, by our own hand."""
    world = world_of("sales.orders", orphans=8, batch_size=30)
    plan = hand_plan(world)
    with monkeypatch.context() as patched:
        crashing(patched, removal, "delete", after=True)
        with pytest.raises(Crash):
            world.apply(plan)
    assert world.apply(plan).deleted.files == 48
    check_end_state(world)


def test_a_run_that_stopped_for_good_does_not_go_on_after_a_crash(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of("sales.orders", orphans=8, batch_size=24)
    plan = hand_plan(world)
    for path in sorted(world.planted())[:20]:
        path.unlink()
    with monkeypatch.context() as patched:
        crashing(patched, ending, "write_head", after=True)
        with pytest.raises(Crash):
            world.apply(plan)
    assert world.apply(plan).status == "partial"
    assert sum(path.exists() for path in world.planted()) == 24
    assert world.warden.audit_verify()["ok"]


def test_an_open_batch_is_validated_again(world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was announced before the crash and became needed after it stays."""
    from tests.support.worlds import plant_rows

    world = world_of("sales.orders", batch_size=50)
    late = plant_rows(world.table())
    plan = hand_plan(world, [*world.planted(), late])
    with monkeypatch.context() as patched:
        crashing(patched, removal, "delete", after=False)
        with pytest.raises(Crash):
            world.apply(plan)
    world.table().add_files([f"file://{late}"])
    result = world.apply(plan)
    assert late.exists()
    assert (result.deleted.files, result.kept["revalidated"]) == (6, 1)


def test_a_crashed_run_whose_plan_has_expired_is_settled_and_deletes_no_more(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import datetime, timedelta

    world = world_of("sales.orders", batch_size=2)
    plan = hand_plan(world)
    with monkeypatch.context() as patched:
        crashing(patched, removal, "delete", after=True, on_call=2)
        with pytest.raises(Crash):
            world.apply(plan)
    clock = type(world.warden._deployment.clock)
    now = clock.now

    def tomorrow(self: Any) -> datetime:
        return now(self) + timedelta(hours=25)

    monkeypatch.setattr(clock, "now", tomorrow)
    with pytest.raises(PlanExpiredError):
        world.apply(plan)
    assert sum(path.exists() for path in world.planted()) == 2
    detail = world.warden.run_detail(world.warden.runs()[0]["run_id"])
    assert (detail["status"], detail["open_batches"]) == ("partial", [])
    assert detail["outcomes"]["deleted"]["files"] == 4
    assert world.warden.audit_verify()["ok"]


def test_a_run_goes_on_with_the_brakes_it_was_started_with(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tables would shift the batches, and files would be passed over."""
    from dataclasses import replace

    from lakewarden.model.errors import Refusal, UsageError

    world = world_of(batch_size=2)
    one, other = hand_plan(world).plan.tables
    braked = replace(one, refusal=Refusal("LW-BRAKE-004", "share", ""), changes={})
    plan = hand_plan(world, tables=(braked, other), brakes={"orphan-share": (one.identifier,)})
    with monkeypatch.context() as patched:
        crashing(patched, removal, "delete", after=True, on_call=2)
        with pytest.raises(Crash):
            world.apply(plan, override_brakes=["orphan-share"])
    with pytest.raises(UsageError):
        world.apply(plan, override_brakes=["live-missing"])
    assert world.apply(plan).deleted.files == 12
    assert not any(path.exists() for path in world.planted())


def test_the_kept_head_is_written_once(world_of: MakeWorld) -> None:
    world = world_of("sales.orders")
    result = world.apply(hand_plan(world))
    [head] = [path for path in Path(world.base / "state" / "journal-heads").iterdir() if "begun" not in path.name]
    assert head.name == f"{result.run_id}.json"
