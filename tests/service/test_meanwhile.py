"""What happens beside a runner at work: a database that is away, a window that closes, a cancel, a runner that was stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakewarden.ledger.requests import MOST_TAKEOVERS, SCHEDULED, STALE, Ended, Request, Requests
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import StateBusyError, StateError
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.service.approval import close_expired
from lakewarden.service.runner import loop
from lakewarden.service.runner.execute import Execution
from tests.service.test_runner import ADA, BOB, JOB, Bench, Make, Meanwhile, bench, waiting_plan
from tests.support.worlds import hand_plan

__all__ = ["bench"]
SCHEDULE = Actor("schedule", "host-1", Trigger.SCHEDULE)


def failing(real: Callable[..., Any], times: int, error: type[StateError] = StateBusyError) -> Callable[..., Any]:
    """A call to the database that fails so many times, as while somebody holds it locked."""
    left = [times]

    def call(*given: Any, **named: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise error("the state database is locked by somebody else")
        return real(*given, **named)

    return call


def test_what_came_of_a_request_outlives_a_database_that_is_away(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be marked as running for a minute, and a plan of an hour would be made again."""
    one = bench()
    one.ask(RequestKind.APPLY, plan=hand_plan(one.world).path)
    monkeypatch.setattr(loop, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(Requests, "finish", failing(Requests.finish, 3))
    assert one.runner.work_once() is not None
    assert (one.ended().status, one.ended().takeovers) == (RequestStatus.DONE, 0)
    assert one.events().count("done") == 1


def test_a_runner_that_is_told_to_end_does_not_wait_for_a_database_that_is_away(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench()
    one.ask(RequestKind.OBSERVE)
    real = failing(Requests.finish, 10**9)

    def away(*given: Any) -> Any:
        one.runner.end()
        return real(*given)

    monkeypatch.setattr(Requests, "finish", away)
    with pytest.raises(StateError):
        one.runner.work_once()


@pytest.mark.parametrize("error", [StateBusyError, StateError])
def test_a_request_whose_database_was_away_is_taken_up_again(
    bench: Make, monkeypatch: pytest.MonkeyPatch, error: type[StateError]
) -> None:
    one = bench()
    one.ask(RequestKind.APPLY, plan=hand_plan(one.world).path)
    monkeypatch.setattr(Execution, "apply", failing(Execution.apply, 1, error))
    monkeypatch.setattr(
        "lakewarden.service.runner.execute._KINDS", {RequestKind.APPLY: lambda self: Execution.apply(self)}
    )
    one.runner.work_once()
    assert (one.ended().status, one.ended().error) == (RequestStatus.QUEUED, None)
    assert one.runner.work_once() is None, "not at once: it is given a moment to come back"
    one.clock.passed += timedelta(minutes=1)
    one.runner.work_once()
    assert one.ended().status is RequestStatus.DONE
    assert one.left() == set()


def test_a_database_that_stays_away_is_what_came_of_it_in_the_end(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    one.ask(RequestKind.APPLY, plan=hand_plan(one.world).path)
    kinds = {RequestKind.APPLY: failing(Execution.apply, 10**9)}
    monkeypatch.setattr("lakewarden.service.runner.execute._KINDS", kinds)
    for _ in range(MOST_TAKEOVERS + 1):
        one.runner.work_once()
        one.clock.passed += timedelta(minutes=1)
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.FAILED, StateBusyError.code)


def test_a_runner_whose_spark_takes_long_to_start_says_that_it_is_at_work(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may fetch its jars for minutes: meanwhile another daemon would take the request over."""
    one = bench()
    one.ask(RequestKind.OBSERVE)
    claimed: list[datetime | None] = []
    beaten = threading.Event()
    real = Requests.beat

    def beat(this: Requests, request_id: str, worker: str) -> Any:
        beaten.set()
        return real(this, request_id, worker)

    def start(this: loop.Runner, request: Request) -> None:
        claimed.append(one.ended().beat_at)
        assert beaten.wait(20), "no beat while Spark starts"

    monkeypatch.setattr(Requests, "beat", beat)
    monkeypatch.setattr(loop.Runner, "_start_with_jars", start)
    one.runner.work_once()
    assert len(claimed) == 1
    assert one.ended().status is RequestStatus.DONE


def test_a_cancel_that_comes_as_the_plan_is_made_leaves_nothing_to_agree_to(bench: Make) -> None:
    one = bench(approval=True)
    plan = hand_plan(one.world, policy={"approval": True}, actor=ADA)
    one.ask(RequestKind.RUN)
    one.ledger.requests.claim("w")
    one.ledger.requests.ask_cancel("q1", "bob")
    waits = Ended(RequestStatus.WAITING, plan_id=plan.plan.plan_id, plan_path=plan.path)
    assert one.ledger.requests.finish("q1", "w", waits)
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.CANCELLED, "LW-SERVICE-007")
    assert (found.plan_id, found.cancel_asked_by) == (plan.plan.plan_id, "bob")
    assert found.finished_at is not None


def test_a_runner_that_lost_its_request_says_nothing_of_how_it_ended(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever watches would read of a failure, or of an end, in the midst of what another runner does."""
    one = bench(batch_size=2)
    one.ask(RequestKind.APPLY, plan=hand_plan(one.world).path)

    def taken_over() -> None:
        one.ledger.requests.left_by("host-1/1")
        assert one.ledger.requests.claim("other") is not None

    Meanwhile(taken_over).install(
        monkeypatch, lambda: one.runner._stop is not None and bool(one.runner._stop.requested)
    )
    one.runner.work_once()
    assert (one.ended().status, one.ended().claimed_by) == (RequestStatus.RUNNING, "other")
    assert set(one.events()) <= {"taken up", "planned", "progress"}


@pytest.mark.parametrize("how", ["fails", "ends"])
def test_a_request_that_was_taken_over_has_one_end(bench: Make, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A runner that was stopped for minutes (SIGSTOP, a frozen machine) goes on and comes to an end of its own."""
    one = bench()
    one.ask(RequestKind.OBSERVE)

    def ended(this: Execution) -> Ended:
        one.ledger.requests.left_by("host-1/1")
        assert one.ledger.requests.claim("other") is not None
        return Ended(RequestStatus.FAILED if how == "fails" else RequestStatus.DONE)

    monkeypatch.setattr(Execution, "ended", ended)
    replaced = one.runner
    replaced.beat_seconds = 60.0
    replaced.work_once()
    assert one.ended().status is RequestStatus.RUNNING
    assert one.events() == ["taken up"]


def test_what_nobody_survives_is_told_as_any_failure_is(bench: Make) -> None:
    one = bench()
    one.ledger.outbox.subscribe({"hook": frozenset({"failure"})})
    one.ask(RequestKind.OBSERVE)
    for number in range(MOST_TAKEOVERS + 1):
        assert one.ledger.requests.claim(f"dead-{number}") is not None
        one.ledger.requests.left_by(f"dead-{number}")
    one.runner.work_once()
    found = one.ended()
    assert found.error is not None
    assert (found.status, found.error["code"]) == (RequestStatus.FAILED, "LW-SERVICE-008")
    assert one.events()[-1] == "failed"
    [told] = one.ledger.outbox.list()
    assert told.content["codes"] == {"LW-SERVICE-008": 1}


def scheduled(one: Bench, name: str = "q1", actor: Actor = SCHEDULE) -> None:
    key = f"{SCHEDULED}{JOB}/{name}"
    one.ledger.requests.create(name, RequestKind.RUN, actor, job=JOB, idempotency_key=key)


@contextmanager
def window(one: Bench, begins: timedelta) -> Any:
    """A window of an hour that opens so much later than now."""
    now = one.clock.now() + begins
    text = f"{now:%H:%M}-{now + timedelta(hours=1):%H:%M}"
    service = one.runner.settings.service.model_copy(update={"windows": {"orphan_cleanup": text}})
    one.runner.settings = one.runner.settings.model_copy(update={"service": service})
    yield


def test_what_was_due_in_a_window_does_not_begin_after_it(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked for in time, and the runner was at work on something else until the window had closed."""
    one = bench()
    monkeypatch.setattr(Execution, "ended", lambda self: Ended(RequestStatus.DONE))
    with window(one, timedelta(hours=-2)):
        scheduled(one)
        assert one.runner.work_once() is None
        assert one.ended().status is RequestStatus.QUEUED
        one.clock.passed += timedelta(hours=22, minutes=30)
        assert one.runner.work_once() is not None
        assert one.ended().status is RequestStatus.DONE


def test_a_window_holds_nothing_that_a_person_asked_for_nor_what_was_begun(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench()
    monkeypatch.setattr(Execution, "ended", lambda self: Ended(RequestStatus.DONE))
    scheduled(one, "begun")
    one.ledger.requests.claim("dead")
    one.ledger.requests.left_by("dead")
    with window(one, timedelta(hours=-2)):
        scheduled(one, "night", ADA)
        one.ask(RequestKind.RUN, "by hand")
        for _ in range(3):
            assert one.runner.work_once() is not None
    assert {one.ended(name).status for name in ("begun", "night", "by hand")} == {RequestStatus.DONE}


def test_a_freeze_holds_what_the_schedule_has_asked_for_already(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken up, it would be refused, and with it whatever comes after it on that day."""
    one = bench()
    monkeypatch.setattr(Execution, "ended", lambda self: Ended(RequestStatus.DONE))
    scheduled(one)
    one.ledger.switches.freeze(BOB, "looking")
    assert one.runner.work_once() is None
    assert one.ended().status is RequestStatus.QUEUED
    one.ledger.switches.unfreeze(BOB)
    assert one.runner.work_once() is not None


def test_a_wall_clock_that_jumps_ahead_takes_nothing_from_a_runner_at_work(bench: Make) -> None:
    one = bench()
    one.ask(RequestKind.OBSERVE)
    assert one.ledger.requests.claim("alive") is not None
    assert one.another().work_once() is None
    one.clock.by += timedelta(days=1)
    assert one.another().work_once() is None
    assert one.ledger.requests.beat("q1", "alive").mine
    one.clock.passed += 2 * STALE
    assert one.ledger.requests.claim("other") is None, "it beats"
    one.clock.passed += 2 * STALE
    assert one.ledger.requests.claim("other") is not None


@pytest.mark.parametrize("how", ["applied", "approved"])
def test_what_waits_is_not_said_to_be_undecided_when_it_was_decided(bench: Make, how: str) -> None:
    one = bench(approval=True)
    plan = waiting_plan(one)
    if how == "applied":
        one.world.apply(plan)  # on the command line: its user's own approval
        close_expired(one.ledger, one.clock.now())
        assert one.ended().status.is_over, "nobody has to wait for a day to hear of it"
    else:
        # The web process dies before it can ask a runner.
        one.ledger.approvals.decide(plan.plan.plan_id, "approved", BOB, planned_by="ada")
        one.clock.passed += plan.plan.expires_at - plan.plan.created_at
        close_expired(one.ledger, one.clock.now())
    found = one.ended()
    assert found.error is not None
    assert "before anybody decided" not in found.error["message"]
    assert ("used by run" if how == "applied" else "bob") in found.error["message"]
