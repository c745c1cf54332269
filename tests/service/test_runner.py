"""The runner: what it does with each kind of request, and what it leaves when it dies, is told to end, or is cancelled."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lakewarden.ledger.requests import MOST_TAKEOVERS, STALE, Ended, Request
from lakewarden.model.actor import Actor
from lakewarden.model.errors import ApprovalError, Refusal
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.service.approval import approve, close_expired, reject
from lakewarden.service.runner import loop
from lakewarden.service.runner.execute import Execution
from lakewarden.service.runner.loop import Runner
from lakewarden.settings import load_settings
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring
from tests.service.clocks import PassedClock
from tests.support.lakes import local_path
from tests.support.worlds import World, hand_plan, make_world

ADA, BOB, CARL = (Actor(name, "host-1") for name in ("ada", "bob", "carl"))
JOB = "orphan-cleanup"


@dataclass
class Bench:
    """A world, a clock that can be turned, and runners that share its ledger."""

    world: World
    wiring: Wiring
    clock: PassedClock
    runner: Runner

    @property
    def ledger(self) -> Any:
        return self.wiring.ledger

    def ask(self, kind: RequestKind, name: str = "q1", actor: Actor = ADA, **arguments: Any) -> Request:
        made: Request = self.ledger.requests.create(name, kind, actor, job=JOB, arguments=arguments)
        return made

    def ended(self, name: str = "q1") -> Request:
        found: Request = self.ledger.requests.need(name)
        return found

    def events(self, name: str = "q1") -> list[str]:
        return [event.name for event in self.ledger.requests.events_after(name)]

    def another(self, name: str = "other") -> Runner:
        return replace(self.runner, name=name, _ending=False)

    def left(self) -> set[Path]:
        return {path for path in self.world.planted() if path.exists()}


Make = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Make]:
    made: list[Bench] = []

    def make(**policy: Any) -> Bench:
        world = make_world(tmp_path / "world", ("sales.orders",), **{"dry_run": False, **policy})
        settings, clock = load_settings(str(world.config), env={}), PassedClock()
        wiring = Wiring(settings, clock)
        runner = Runner(wiring.deployment, settings, Warden(wiring, settings), "host-1/1", beat_seconds=0.02)
        world._warden = Warden(wiring, settings)
        made.append(Bench(world, wiring, clock, runner))
        return made[-1]

    yield make
    for one in made:
        one.world.close()


def test_nothing_to_do_is_nothing_done(bench: Make) -> None:
    assert bench().runner.work_once() is None


def test_a_plan_is_applied_and_told_of_step_by_step(bench: Make) -> None:
    one = bench()
    plan = hand_plan(one.world)
    one.ask(RequestKind.APPLY, plan=plan.path)
    assert one.runner.work_once() is not None
    found = one.ended()
    assert found.status is RequestStatus.DONE
    assert found.result is not None
    assert found.result["deleted"]["files"] == 6
    assert found.plan_id == plan.plan.plan_id
    run = one.ledger.runs.get(found.run_id)
    assert run is not None
    assert run.actor == ADA
    assert one.left() == set()
    assert one.world.lost() == set()
    assert one.events()[0] == "taken up"
    assert one.events()[-1] == "done"
    assert "progress" in one.events()


def test_spark_starts_with_the_jars_that_any_job_may_need(bench: Make) -> None:
    """A process has one Spark: without jars from the first request on, a later rewriting of manifests would have none."""
    one = bench()
    with one.world.config.open("a") as config:
        config.write("\n[manifest_rewrite]\ndry_run = false\n")
    settings = load_settings(str(one.world.config), env={})
    started: list[tuple[str, ...]] = []
    wiring = Wiring(settings, one.clock)
    deployment = replace(wiring.deployment, warm_spark=lambda packages=(), **_: started.append(packages))
    runner = Runner(deployment, settings, Warden(wiring, settings), "host-1/1")
    for name in ("q1", "q2"):
        one.ask(RequestKind.APPLY, name, plan=f"file://{one.world.base}/nowhere/")
        assert runner.work_once() is not None
    wiring.close()
    assert [any("iceberg-spark-runtime" in package for package in packages) for packages in started] == [True]


@pytest.mark.parametrize("kind", [RequestKind.APPLY, RequestKind.RUN])
def test_a_spark_that_began_without_jars_is_left_for_one_that_has_them(bench: Make, kind: RequestKind) -> None:
    """Somebody chose a plan although its job is a dry run, as by default; or a table came when Spark was there already."""
    one = bench()
    if kind is RequestKind.RUN:
        with one.world.config.open("a") as config:
            config.write("\n[manifest_rewrite]\ndry_run = false\n")
    settings = load_settings(str(one.world.config), env={})
    started: list[tuple[str, ...]] = []
    wiring = Wiring(settings, one.clock)
    deployment = replace(wiring.deployment, warm_spark=lambda packages=(), **_: started.append(packages))
    asked: list[Sequence[str]] = []

    def runner(runs_without: bool) -> Runner:
        def without(packages: Sequence[str]) -> bool:
            asked.append(packages)
            return runs_without

        return Runner(deployment, settings, Warden(wiring, settings), "r", spark_runs_without=without)

    place = (
        {"plan": f"file://{one.world.base}/nowhere/"} if kind is RequestKind.APPLY else {"select": ["no.such.table"]}
    )
    one.ledger.requests.create("q1", kind, ADA, job="manifest-rewrite", arguments=place)
    first = runner(True)
    first.work_once()
    assert first.has_ended, "a process has one Spark: another one needs another process"
    assert (one.ended().status, one.ended().takeovers, started) == (RequestStatus.QUEUED, 0, [])
    assert any("iceberg-spark-runtime" in package for package in asked[0])
    second = runner(False)
    second.work_once()
    assert not second.has_ended
    assert started == [tuple(asked[0])]
    assert one.ended().status is RequestStatus.REFUSED, "as any request that names what is not there"
    wiring.close()


def test_jars_that_the_user_chose_are_the_users_business(bench: Make) -> None:
    one = bench()
    with one.world.config.open("a") as config:
        config.write('\n[spark.conf]\n"spark.jars" = "/opt/iceberg.jar"\n')
    settings = load_settings(str(one.world.config), env={})
    wiring = Wiring(settings, one.clock)
    runner = Runner(wiring.deployment, settings, Warden(wiring, settings), "r", spark_runs_without=lambda _: True)
    place = {"plan": f"file://{one.world.base}/nowhere/"}
    one.ledger.requests.create("q1", RequestKind.APPLY, ADA, job="manifest-rewrite", arguments=place)
    runner.work_once()
    assert not runner.has_ended
    wiring.close()


def test_an_error_is_what_came_of_the_request(bench: Make) -> None:
    one = bench()
    one.ask(RequestKind.APPLY, plan=f"file://{one.world.base}/nowhere/")
    one.runner.work_once()
    found = one.ended()
    assert found.status is RequestStatus.REFUSED
    assert found.error is not None
    assert found.error["code"] == "LW-CORE-010"


def test_a_freeze_refuses(bench: Make) -> None:
    one = bench()
    plan = hand_plan(one.world)
    one.ledger.switches.freeze(BOB, "looking")
    one.ask(RequestKind.APPLY, plan=plan.path)
    one.runner.work_once()
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.REFUSED, "LW-APPLY-001")
    assert len(one.left()) == 6


class Meanwhile:
    """Acts once, when a batch was done; then waits until the runner has heard of it."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action: Callable[[], Any] | None = action

    def install(self, monkeypatch: pytest.MonkeyPatch, heard: Callable[[], bool]) -> None:
        real = loop.Told.__call__

        def told(this: Any, stage: str, done: int, total: int) -> None:
            real(this, stage, done, total)
            if stage == "delete" and done > 0 and self.action is not None:
                action, self.action = self.action, None
                action()
                for _ in range(2000):
                    if heard():
                        break
                    time.sleep(0.005)

        monkeypatch.setattr(loop.Told, "__call__", told)


def test_cancel_stops_between_batches_and_the_same_plan_goes_on(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench(batch_size=2)
    plan = hand_plan(one.world)
    one.ask(RequestKind.APPLY, plan=plan.path)
    Meanwhile(lambda: one.ledger.requests.ask_cancel("q1", "bob")).install(
        monkeypatch, lambda: one.runner._stop is not None and one.runner._stop.requested is not None
    )
    one.runner.work_once()
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.CANCELLED, "LW-SERVICE-007")
    assert 0 < len(one.left()) < 6
    one.ask(RequestKind.APPLY, "q2", plan=plan.path)
    one.runner.work_once()
    assert one.ended("q2").status is RequestStatus.DONE
    assert one.left() == set()


def test_a_runner_that_is_told_to_end_gives_back_what_another_goes_on_with(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench(batch_size=2)
    plan = hand_plan(one.world)
    one.ask(RequestKind.APPLY, plan=plan.path)
    Meanwhile(one.runner.end).install(monkeypatch, lambda: True)
    one.runner.work_once()
    found = one.ended()
    assert (found.status, found.claimed_by) == (RequestStatus.QUEUED, None)
    assert 0 < len(one.left()) < 6
    assert one.runner.work_once() is None
    assert one.another().work_once() is not None
    again = one.ended()
    assert again.status is RequestStatus.DONE
    assert again.result is not None
    assert again.result["deleted"]["files"] == 6
    assert one.left() == set()
    assert len(one.ledger.runs.list()) == 1


def test_what_was_cancelled_is_not_begun_by_whoever_takes_it_over(bench: Make) -> None:
    one = bench()
    one.ask(RequestKind.APPLY, plan=hand_plan(one.world).path)
    one.ledger.requests.claim("dead")
    one.ledger.requests.ask_cancel("q1", "bob")
    one.ledger.requests.left_by("dead")
    one.runner.work_once()
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.CANCELLED, "LW-SERVICE-007")
    assert len(one.left()) == 6


def test_a_runner_that_lives_although_it_was_given_up_costs_nothing(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lease of the run until it hears: the request is not failed by that."""
    one = bench(batch_size=2)
    plan = hand_plan(one.world)
    one.ask(RequestKind.APPLY, plan=plan.path)
    others: list[Runner] = []

    def taken_over() -> None:
        others.append(one.another())
        one.ledger.requests.left_by("host-1/1")
        while others[0].work_once() is None:  # the runner has said in between that it lives
            one.ledger.requests.left_by("host-1/1")

    Meanwhile(taken_over).install(
        monkeypatch, lambda: one.runner._stop is not None and one.runner._stop.requested is not None
    )
    one.runner.work_once()
    assert 0 < len(one.left()) < 6
    assert one.ended().status is RequestStatus.QUEUED
    one.clock.passed += loop.LEASE_PAUSE
    others[0].work_once()
    assert one.ended().status is RequestStatus.DONE
    assert one.left() == set()
    assert one.world.lost() == set()


def test_what_a_dead_runner_left_is_taken_over(bench: Make) -> None:
    one = bench()
    plan = hand_plan(one.world)
    one.ask(RequestKind.APPLY, plan=plan.path)
    one.ledger.requests.claim("host-1/dead")
    assert one.runner.work_once() is None
    one.clock.passed += 2 * STALE
    assert one.runner.work_once() is not None
    assert one.ended().status is RequestStatus.DONE


def test_a_run_that_was_over_when_its_runner_died_is_not_run_again(bench: Make) -> None:
    one = bench()
    plan = hand_plan(one.world)
    one.ask(RequestKind.APPLY, plan=plan.path)
    one.ledger.requests.claim("dead")
    one.ledger.requests.note("q1", "dead", plan_id=plan.plan.plan_id, plan_path=plan.path)
    done = one.world.apply(plan)
    one.ledger.requests.left_by("dead")
    assert one.runner.work_once() is not None
    found = one.ended()
    assert (found.status, found.run_id) == (RequestStatus.DONE, done.run_id)


def test_a_plan_that_needs_approval_waits_for_another_than_its_planner(bench: Make) -> None:
    one = bench(approval=True)
    plan = waiting_plan(one)
    plan_id = plan.plan.plan_id
    assert len(one.left()) == 6
    with pytest.raises(ApprovalError, match="cannot decide"):
        approve(one.ledger, "q2", plan_id, ADA)
    made = approve(one.ledger, "q2", plan_id, BOB, "looked at it")
    assert approve(one.ledger, "q3", plan_id, BOB).request_id == made.request_id
    assert one.ended().status is RequestStatus.DONE
    one.runner.work_once()
    found = one.ended("q2")
    assert (found.status, found.actor.operator) == (RequestStatus.DONE, "bob")
    assert one.left() == set()
    assert one.ledger.runs.get(found.run_id).actor.operator == "bob"
    assert one.ledger.approvals.get(plan_id).reason == "looked at it"


def test_a_rejected_plan_is_closed_and_never_applied(bench: Make) -> None:
    one = bench(approval=True)
    plan = waiting_plan(one)
    reject(one.ledger, plan.plan.plan_id, BOB, "not today")
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.REFUSED, "LW-SERVICE-004")
    with pytest.raises(ApprovalError, match="rejected by bob"):
        approve(one.ledger, "q2", plan.plan.plan_id, BOB)
    one.ask(RequestKind.APPLY, "q4", actor=BOB, plan=plan.path)
    one.runner.work_once()
    assert one.ended("q4").status is RequestStatus.REFUSED
    assert len(one.left()) == 6


def test_a_plan_that_waits_for_nobody_is_not_applied_once_it_was_rejected(bench: Make) -> None:
    one = bench()
    plan = hand_plan(one.world, actor=ADA)
    reject(one.ledger, plan.plan.plan_id, BOB, "not today")
    one.ask(RequestKind.APPLY, plan=plan.path)
    one.runner.work_once()
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.REFUSED, "LW-SERVICE-004")
    assert len(one.left()) == 6


def test_the_planner_does_not_agree_because_somebody_else_asked_last(bench: Make) -> None:
    one = bench(approval=True)
    plan = waiting_plan(one)
    one.ask(RequestKind.APPLY, "q2", actor=CARL, plan=plan.path)
    one.runner.work_once()
    for same in (ADA, Actor("Ada", "host-2"), Actor("ada+laptop", "host-2")):
        with pytest.raises(ApprovalError, match="cannot decide"):
            approve(one.ledger, "q3", plan.plan.plan_id, same)


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_a_run_planned_is_agreed_to_on_the_runs_terms_however_often(bench: Make, cancelled: bool) -> None:
    one = bench(approval=True)
    plan = hand_plan(one.world, policy={"approval": True}, actor=ADA)
    one.ask(RequestKind.RUN, enabled_only=not cancelled)
    one.ledger.requests.claim("host-1/1")
    waits = Ended(RequestStatus.WAITING, plan_id=plan.plan.plan_id, plan_path=plan.path)
    one.ledger.requests.finish("q1", "host-1/1", waits)
    if cancelled:
        one.ledger.requests.ask_cancel("q1", "ada")
    made = approve(one.ledger, "q2", plan.plan.plan_id, BOB)
    assert made.arguments["as_run"] is True, "a table with dry_run would be changed"
    assert made.arguments.get("enabled_only", False) is not cancelled, "the jobs after it look at what came of it"
    assert approve(one.ledger, "q3", plan.plan.plan_id, BOB) == made


@pytest.mark.parametrize("agreed", [False, True])
def test_nobody_lifts_a_brake_of_a_table_that_wants_an_approval(bench: Make, agreed: bool) -> None:
    one = bench(approval=True)
    table = hand_plan(one.world, policy={"approval": True}).plan.tables[0]
    braked = replace(table, refusal=Refusal("LW-BRAKE-001", "too many", "look"))
    brakes = {"orphan-share": (table.identifier,)}
    plan = hand_plan(one.world, actor=ADA, tables=(braked,), brakes=brakes)
    if agreed:
        approve(one.ledger, "q0", plan.plan.plan_id, BOB)
        one.ledger.requests.ask_cancel("q0", "bob")
    one.ask(RequestKind.APPLY, plan=plan.path, override_brakes=["orphan-share"])
    one.runner.work_once()
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.REFUSED, "LW-SERVICE-004")
    assert len(one.left()) == 6


def test_agreeing_to_a_plan_applies_no_other_that_lies_in_its_place(bench: Make) -> None:
    one = bench(approval=True)
    plan, other = waiting_plan(one), hand_plan(one.world, actor=ADA)
    place = local_path(plan.path)
    shutil.rmtree(place)
    shutil.copytree(local_path(other.path), place)
    approve(one.ledger, "q2", plan.plan.plan_id, BOB)
    one.runner.work_once()
    found = one.ended("q2")
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.REFUSED, "LW-PLAN-002")
    assert len(one.left()) == 6


def test_an_expired_plan_is_told_so(bench: Make) -> None:
    one = bench(approval=True)
    plan = waiting_plan(one)
    one.clock.passed += plan.plan.expires_at - plan.plan.created_at
    with pytest.raises(ApprovalError, match="expired"):
        approve(one.ledger, "q2", plan.plan.plan_id, BOB)
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.REFUSED, "LW-PLAN-003")
    assert close_expired(one.ledger, one.clock.now()) == 0


def waiting_plan(one: Bench) -> Any:
    """A plan of a job with `approval = true`, that ada asked to be applied."""
    plan = hand_plan(one.world, policy={"approval": True}, actor=ADA)
    one.ask(RequestKind.APPLY, plan=plan.path)
    one.runner.work_once()
    assert one.ended().status is RequestStatus.WAITING
    return plan


def test_the_fleet_is_observed_without_spark(bench: Make) -> None:
    one = bench(enabled=True)
    one.ask(RequestKind.OBSERVE)
    one.runner.work_once()
    found = one.ended()
    assert found.result is not None
    assert found.result["enabled"] == [JOB]
    row = one.ledger.fleet.get("lake.sales.orders")
    assert (row.format, row.tenant, row.health, row.code) == ("iceberg", "sales", "attention", "never planned")
    assert row.files
    assert row.newest_commit_at is not None


def test_a_restore_brings_quarantined_files_back(bench: Make) -> None:
    one = bench(delete_mode="quarantine")
    run = one.world.apply(hand_plan(one.world))
    assert one.left() == set()
    one.ask(RequestKind.RESTORE, run_id=run.run_id)
    one.runner.work_once()
    assert one.ended().status is RequestStatus.DONE
    assert len(one.left()) == 6


def test_a_dead_spark_ends_the_runner_and_not_the_request(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    one.ask(RequestKind.PLAN)
    failed = Ended(RequestStatus.FAILED, error={"code": "LW-SPARK-002", "message": "", "hint": ""})
    monkeypatch.setattr(Execution, "ended", lambda self: failed)
    for _ in range(MOST_TAKEOVERS):
        runner = replace(one.another(), spark_is_gone=lambda: True)
        runner.work_once()
        assert runner.has_ended
        assert one.ended().status is RequestStatus.QUEUED
    replace(one.another(), spark_is_gone=lambda: True).work_once()
    assert one.ended().status is RequestStatus.FAILED


@pytest.mark.parametrize("kind", [RequestKind.RUN, RequestKind.PLAN])
def test_a_run_stops_after_a_plan_whose_policy_wants_somebody_to_agree(tmp_path: Path, kind: RequestKind) -> None:
    world = make_world(tmp_path / "world", ("sales.orders",))
    with world.config.open("a") as config:
        config.write("\n[manifest_rewrite]\nenabled = true\ndry_run = false\napproval = true\n")
        config.write("min_manifests = 2\nmin_gain = 0.0\n")
    settings = load_settings(str(world.config), env={})
    wiring = Wiring(settings, PassedClock())
    runner = Runner(wiring.deployment, settings, Warden(wiring, settings), "host-1/1")
    wiring.ledger.requests.create("q1", kind, ADA, job="manifest-rewrite", arguments={"enabled_only": True})
    runner.work_once()
    found = wiring.ledger.requests.need("q1")
    assert (found.status, found.error) == (RequestStatus.WAITING, None)
    assert found.plan_path is not None
    plan = runner.warden.load_plan(found.plan_path).plan
    assert [table.policy.get("approval") for table in plan.tables] == [True]
    made = approve(wiring.ledger, "q2", plan.plan_id, BOB)
    assert made.arguments.get("as_run") is (True if kind is RequestKind.RUN else None)
    wiring.close()


@pytest.mark.parametrize("job", ["history", "stale-branches"])
def test_what_lies_outside_a_tenant_is_never_looked_at_for_it(tmp_path: Path, job: str) -> None:
    world = make_world(tmp_path / "world", ("sales.orders", "sales.carts", "other.orders"))
    settings = load_settings(str(world.config), env={})
    wiring = Wiring(settings, PassedClock())
    runner = Runner(wiring.deployment, settings, Warden(wiring, settings), "host-1/1")
    for name, within in (("q1", ["lake.sales.*"]), ("q2", ["lake.nobody.*"])):
        given = {"select": ["*.orders"], "within": within}
        wiring.ledger.requests.create(name, RequestKind.PLAN, ADA, job=job, arguments=given)
        runner.work_once()
    found, none = wiring.ledger.requests.need("q1"), wiring.ledger.requests.need("q2")
    assert found.plan_path is not None
    plan = runner.warden.load_plan(found.plan_path).plan
    assert [table.identifier for table in plan.tables] == ["lake.sales.orders"]
    assert none.error is not None
    assert "matches *.orders within lake.nobody.*" in none.error["message"]
    wiring.close()


def test_a_night_is_a_request_for_each_of_its_jobs_in_their_order(bench: Make) -> None:
    one = bench(enabled=True)
    one.ask(RequestKind.NIGHT, jobs=["orphans", "snapshot-expiry"], select=["lake.*"])
    one.runner.work_once()
    found = one.ended()
    assert found.result is not None
    assert list(found.result["requests"]) == ["snapshot-expiry", JOB]
    made = [one.ended(name) for name in found.result["requests"].values()]
    assert all(request.arguments["select"] == ["lake.*"] for request in made)
    assert all(request.actor == ADA for request in made)
    first = one.ledger.requests.claim("w", loop.AFTER)
    assert first is not None
    assert first.job == "snapshot-expiry"
    assert one.ledger.requests.claim("w2", loop.AFTER) is None
