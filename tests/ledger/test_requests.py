"""Requests: made once, claimed by one, taken over when their runner is silent, stopped when somebody asks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event

from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.old_requests import AT_A_TIME
from lakewarden.ledger.requests import MOST_TAKEOVERS, SCHEDULED, STALE, Ended, Request
from lakewarden.model.actor import Actor
from lakewarden.model.errors import IdempotencyError, NotFoundError
from lakewarden.model.service import RequestKind, RequestStatus
from tests.support.ledger import SteppedClock

ADA = Actor("ada", "host-1")
DONE = RequestStatus.DONE
BEYOND = STALE.total_seconds() + 1


def asked(ledger: Ledger, name: str = "q1", **more: object) -> Request:
    values = {"job": "orphan-cleanup", "arguments": {"select": ["a.*"]}, **more}
    return ledger.requests.create(name, RequestKind.PLAN, ADA, **values)  # type: ignore[arg-type]


def test_what_was_asked_is_there_as_it_was_asked(ledger: Ledger) -> None:
    made = asked(ledger)
    assert ledger.requests.get("q1") == made
    assert (made.status, made.actor, made.arguments) == (RequestStatus.QUEUED, ADA, {"select": ["a.*"]})
    assert ledger.requests.get("other") is None
    with pytest.raises(NotFoundError):
        ledger.requests.need("other")


def test_one_key_is_one_request(ledger: Ledger) -> None:
    first = asked(ledger, idempotency_key="ada:k")
    assert asked(ledger, "q2", idempotency_key="ada:k") == first
    assert ledger.requests.get("q2") is None
    with pytest.raises(IdempotencyError, match="q1"):
        asked(ledger, "q3", idempotency_key="ada:k", job="compaction")
    assert len(ledger.requests.list()) == 1


def test_requests_without_a_key_are_each_their_own(ledger: Ledger) -> None:
    asked(ledger)
    asked(ledger, "q2")
    assert [found.request_id for found in ledger.requests.list()] == ["q2", "q1"]


def test_one_key_from_many_at_once_is_one_request(ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: asked(ledger, f"q{n}", idempotency_key="ada:k").request_id, range(24)))
    assert len(set(made)) == 1
    assert len(ledger.requests.list()) == 1


def test_each_request_is_claimed_once_by_whoever_is_first(ledger: Ledger, ledger_url: str) -> None:
    """Two daemons, each with connections of its own, take what there is: nothing twice, and nothing is left."""
    for n in range(20):
        asked(ledger, f"q{n:02}")
    with open_ledger(ledger_url, SteppedClock()) as other, ThreadPoolExecutor(8) as pool:
        ledgers = [ledger, other] * 12
        claims = list(pool.map(lambda pair: pair[1].requests.claim(f"w{pair[0]}"), enumerate(ledgers)))
    taken = [claim.request_id for claim in claims if claim is not None]
    assert sorted(taken) == [f"q{n:02}" for n in range(20)]


def test_the_oldest_comes_first_and_nothing_before_it_is_due(ledger: Ledger, clock: SteppedClock) -> None:
    asked(ledger, "later", due_at=clock.at + timedelta(hours=1))
    asked(ledger, "now")
    claimed = ledger.requests.claim("w")
    assert claimed is not None
    assert (claimed.request_id, claimed.status, claimed.claimed_by) == ("now", RequestStatus.RUNNING, "w")
    assert ledger.requests.claim("w") is None
    clock.sleep(3601)
    later = ledger.requests.claim("w")
    assert later is not None
    assert later.request_id == "later"


def test_a_scheduled_job_waits_for_the_jobs_before_it(ledger: Ledger) -> None:
    after = {"orphan-cleanup": ["snapshot-expiry"]}
    asked(ledger, "orphans", idempotency_key=f"{SCHEDULED}orphan-cleanup/06:00")
    asked(ledger, "expiry", job="snapshot-expiry", idempotency_key=f"{SCHEDULED}snapshot-expiry/06:30")
    first = ledger.requests.claim("w", after)
    assert first is not None
    assert first.request_id == "expiry"
    assert ledger.requests.claim("w2", after) is None
    assert ledger.requests.finish("expiry", "w", Ended(RequestStatus.FAILED))
    second = ledger.requests.claim("w2", after)
    assert second is not None
    assert second.request_id == "orphans"


def test_what_a_person_asks_for_waits_for_no_schedule(ledger: Ledger) -> None:
    asked(ledger, "expiry", job="snapshot-expiry", idempotency_key=f"{SCHEDULED}snapshot-expiry/06:30")
    asked(ledger, "orphans", idempotency_key="ada:k")
    after = {"orphan-cleanup": ["snapshot-expiry"]}
    assert {ledger.requests.claim("w", after).request_id for _ in "ab"} == {"expiry", "orphans"}  # type: ignore[union-attr]


def test_a_silent_runners_request_is_taken_over_by_one(ledger: Ledger, clock: SteppedClock) -> None:
    asked(ledger)
    ledger.requests.claim("dead")
    clock.sleep(BEYOND)
    taken = ledger.requests.claim("alive")
    assert taken is not None
    assert (taken.claimed_by, taken.takeovers) == ("alive", 1)
    assert ledger.requests.claim("third") is None
    assert not ledger.requests.beat("q1", "dead").mine
    assert not ledger.requests.finish("q1", "dead", Ended(RequestStatus.DONE))
    assert ledger.requests.need("q1").status is RequestStatus.RUNNING


def test_a_runner_that_beats_keeps_its_request(ledger: Ledger, clock: SteppedClock) -> None:
    asked(ledger)
    ledger.requests.claim("w")
    for _ in range(3):
        clock.sleep(BEYOND - 10)
        assert ledger.requests.beat("q1", "w").mine
        assert ledger.requests.claim("other") is None


class WrongClock(SteppedClock):
    """A clock on the wall that is wrong `by` something; seconds are as long for it as for anybody."""

    by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.by

    def boot(self) -> float:
        return super().now().timestamp()


@pytest.mark.parametrize("away", [timedelta(hours=1), timedelta(days=-400)])
def test_a_clock_that_is_wrong_takes_nothing_from_a_runner_that_beats(
    ledger: Ledger, ledger_url: str, clock: SteppedClock, away: timedelta
) -> None:
    wrong = WrongClock()
    wrong.by = away
    with open_ledger(ledger_url, wrong) as other:
        asked(ledger)
        ledger.requests.claim("here")
        for _ in range(2 * int(STALE.total_seconds()) // 5):
            assert other.requests.claim("there") is None
            assert ledger.requests.beat("q1", "here").mine
            for one in (clock, wrong):
                one.sleep(5)
        assert other.requests.claim("there") is None
        wrong.by -= timedelta(days=400)  # somebody has put it right, or so they think
        assert other.requests.claim("there") is None
        wrong.by += timedelta(days=800)
        assert other.requests.claim("there") is None
        wrong.sleep(BEYOND)
        taken = other.requests.claim("there")
        assert taken is not None
        assert taken.claimed_by == "there"


def test_a_request_that_kills_every_runner_is_known(ledger: Ledger, clock: SteppedClock) -> None:
    asked(ledger)
    for n in range(MOST_TAKEOVERS + 1):
        taken = ledger.requests.claim(f"w{n}")
        assert taken is not None
        assert not taken.is_deadly
        clock.sleep(BEYOND)
    last = ledger.requests.claim("last")
    assert last is not None
    assert last.is_deadly


def test_what_came_of_it_is_kept(ledger: Ledger) -> None:
    asked(ledger)
    ledger.requests.claim("w")
    ledger.requests.note("q1", "w", plan_id="p1", plan_path="file:///plans/p1/")
    assert ledger.requests.finish("q1", "w", Ended(RequestStatus.DONE, run_id="r1", result={"n": 1}))
    found = ledger.requests.need("q1")
    assert (found.run_id, found.plan_id, found.plan_path, found.result) == ("r1", "p1", "file:///plans/p1/", {"n": 1})
    assert found.finished_at is not None
    assert not ledger.requests.finish("q1", "w", Ended(RequestStatus.FAILED))


def test_a_runner_that_ends_gives_its_request_back(ledger: Ledger) -> None:
    asked(ledger)
    ledger.requests.claim("w")
    assert ledger.requests.give_back("q1", "w")
    again = ledger.requests.claim("w2")
    assert again is not None
    assert again.takeovers == 0


def test_cancel_ends_what_nobody_works_on_and_is_told_to_whoever_does(ledger: Ledger) -> None:
    asked(ledger)
    assert ledger.requests.ask_cancel("q1", "bob").status is RequestStatus.CANCELLED
    asked(ledger, "q2")
    ledger.requests.claim("w")
    assert not ledger.requests.beat("q2", "w").cancel
    found = ledger.requests.ask_cancel("q2", "bob")
    assert (found.status, found.cancel_asked_by) == (RequestStatus.RUNNING, "bob")
    assert ledger.requests.beat("q2", "w").cancel
    assert ledger.requests.finish("q2", "w", Ended(RequestStatus.CANCELLED))
    assert ledger.requests.ask_cancel("q2", "eve").cancel_asked_by == "bob"
    with pytest.raises(NotFoundError):
        ledger.requests.ask_cancel("q9", "bob")


def test_only_a_waiting_request_is_closed_by_a_decision(ledger: Ledger) -> None:
    asked(ledger)
    ledger.requests.claim("w")
    assert not ledger.requests.close_waiting("q1", Ended(RequestStatus.DONE))
    ledger.requests.finish("q1", "w", Ended(RequestStatus.WAITING, plan_id="p1"))
    assert ledger.requests.need("q1").finished_at is None
    assert [found.request_id for found in ledger.requests.list(plan_id="p1")] == ["q1"]
    assert ledger.requests.close_waiting("q1", Ended(RequestStatus.DONE))
    assert ledger.requests.need("q1").finished_at is not None


def test_events_come_in_order_after_the_one_that_was_seen(ledger: Ledger) -> None:
    asked(ledger)
    asked(ledger, "q2")
    ledger.requests.event("q1", "claimed", {"by": "w"})
    ledger.requests.event("q2", "claimed")
    ledger.requests.event("q1", "progress", {"done": 1, "total": 2})
    seen = ledger.requests.events_after("q1")
    assert [(event.name, event.detail) for event in seen] == [
        ("claimed", {"by": "w"}),
        ("progress", {"done": 1, "total": 2}),
    ]
    assert ledger.requests.events_after("q1", seen[0].event_id) == seen[1:]


def test_lists_go_on_where_they_ended(ledger: Ledger) -> None:
    for n in range(5):
        asked(ledger, f"q{n}", job="compaction" if n % 2 else "orphan-cleanup")
    first = ledger.requests.list(limit=2)
    assert [found.request_id for found in first] == ["q4", "q3"]
    assert [found.request_id for found in ledger.requests.list(limit=2, before=first[-1])] == ["q2", "q1"]
    assert [found.request_id for found in ledger.requests.list(job="compaction")] == ["q3", "q1"]
    ledger.requests.ask_cancel("q2", "bob")
    assert [found.request_id for found in ledger.requests.list(status=[RequestStatus.CANCELLED])] == ["q2"]


DAY = timedelta(days=1)


def ended(ledger: Ledger, name: str, kind: RequestKind = RequestKind.PLAN, status: RequestStatus = DONE) -> None:
    """A request that is over, with an event."""
    ledger.requests.create(name, kind, ADA, job="orphan-cleanup")
    assert ledger.requests.claim("w") is not None
    ledger.requests.event(name, "taken up")
    assert ledger.requests.finish(name, "w", Ended(status))


def left(ledger: Ledger) -> set[str]:
    return {found.request_id for found in ledger.requests.list()}


def forget(ledger: Ledger, clock: SteppedClock, days: float = 90, most: int = 1000) -> int:
    """Until nothing more is forgotten."""
    count = 0
    while some := ledger.requests.forget(clock.at - days * DAY, clock.at - DAY, most):
        count += some
    return count


def test_old_looks_are_forgotten_sooner_than_anything_else(ledger: Ledger, clock: SteppedClock) -> None:
    ended(ledger, "look", RequestKind.OBSERVE)
    ended(ledger, "plan")
    clock.sleep(2 * 86400)
    ended(ledger, "new", RequestKind.OBSERVE)
    assert forget(ledger, clock) == 1
    assert left(ledger) == {"plan", "new"}
    assert ledger.requests.events_after("look") == []
    assert len(ledger.requests.events_after("plan")) == 1


def test_the_last_look_that_was_done_stays_however_old_it_is(ledger: Ledger, clock: SteppedClock) -> None:
    """It says which jobs the properties of tables enable: without it they would leave the schedule."""
    ended(ledger, "older", RequestKind.OBSERVE)
    ended(ledger, "done", RequestKind.OBSERVE)
    ended(ledger, "failed", RequestKind.OBSERVE, RequestStatus.FAILED)
    clock.sleep(200 * 86400)
    assert forget(ledger, clock, most=1) == 2
    assert left(ledger) == {"done"}


def test_only_those_that_are_over_are_forgotten(ledger: Ledger, clock: SteppedClock) -> None:
    ended(ledger, "over", status=RequestStatus.FAILED)
    ended(ledger, "waiting", status=RequestStatus.WAITING)
    asked(ledger, "running")
    ledger.requests.claim("w")
    asked(ledger, "queued")
    clock.sleep(100 * 86400)
    asked(ledger, "later")
    ledger.requests.ask_cancel("later", "bob")
    assert forget(ledger, clock) == 1
    assert left(ledger) == {"waiting", "running", "queued", "later"}
    assert ledger.requests.events_after("over") == []
    assert len(ledger.requests.events_after("waiting")) == 1
    assert forget(ledger, clock, most=0) == 1
    assert left(ledger) == {"waiting", "running", "queued"}


def test_beyond_a_number_the_oldest_go_however_young_they_are(ledger: Ledger, clock: SteppedClock) -> None:
    for n in range(7):
        ended(ledger, f"q{n}")
    assert forget(ledger, clock, most=3) == 4
    assert left(ledger) == {"q4", "q5", "q6"}


def test_some_are_forgotten_at_a_time(ledger: Ledger, clock: SteppedClock) -> None:
    """Nobody waits for years of them, and two daemons may do it at once."""
    for n in range(AT_A_TIME + 1):
        ledger.requests.create(f"q{n:04}", RequestKind.PLAN, ADA)
        ledger.requests.ask_cancel(f"q{n:04}", "ada")
    clock.sleep(100 * 86400)
    when = clock.at - 90 * DAY
    assert ledger.requests.forget(when, when, 1000) == AT_A_TIME
    assert left(ledger) == {f"q{AT_A_TIME:04}"}
    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(lambda _: ledger.requests.forget(when, when, 1000), "ab")) == 1


def test_a_cancel_is_not_lost_while_the_request_is_given_back(ledger: Ledger, ledger_url: str) -> None:
    """A runner that is told to end gives the request back in the moment in which somebody cancels it."""
    asked(ledger)
    ledger.requests.claim("w")
    given_back: list[threading.Thread] = []
    with open_ledger(ledger_url, SteppedClock()) as other:

        @event.listens_for(ledger._connections.engine, "after_cursor_execute")
        def meanwhile(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            if "lw_requests" in statement and not given_back:
                given_back.append(threading.Thread(target=other.requests.give_back, args=("q1", "w")))
                given_back[0].start()
                given_back[0].join(0.3)  # whoever locks the row first lets the other wait

        ledger.requests.ask_cancel("q1", "bob")
        given_back[0].join()
    found = ledger.requests.need("q1")
    assert (found.cancel_asked_by, found.cancel_asked_at is not None) == ("bob", True)


def test_what_killed_a_spark_is_counted(ledger: Ledger) -> None:
    asked(ledger)
    ledger.requests.claim("w")
    assert ledger.requests.give_back("q1", "w", died=True)
    assert ledger.requests.need("q1").takeovers == 1
