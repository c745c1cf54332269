"""Requests: made once, claimed by one, taken over when their runner is silent, stopped when somebody asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.requests import MOST_TAKEOVERS, SCHEDULED, STALE, Ended, Request
from lakewarden.model.actor import Actor
from lakewarden.model.errors import IdempotencyError, NotFoundError
from lakewarden.model.service import RequestKind, RequestStatus
from tests.support.ledger import SteppedClock

ADA = Actor("ada", "host-1")
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


def test_a_request_that_kills_every_runner_is_given_up(ledger: Ledger, clock: SteppedClock) -> None:
    asked(ledger)
    for n in range(MOST_TAKEOVERS + 1):
        assert ledger.requests.claim(f"w{n}") is not None
        clock.sleep(BEYOND)
    assert ledger.requests.claim("last") is None
    found = ledger.requests.need("q1")
    assert found.status is RequestStatus.FAILED
    assert found.error is not None
    assert found.error["code"] == "LW-SERVICE-008"


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


def test_old_looks_are_forgotten_and_nothing_else(ledger: Ledger, clock: SteppedClock) -> None:
    ledger.requests.create("look", RequestKind.OBSERVE, ADA)
    asked(ledger, "plan")
    ledger.requests.create("new", RequestKind.OBSERVE, ADA)
    for name in ("look", "plan"):
        ledger.requests.claim("w")
        ledger.requests.event(name, "taken up")
        ledger.requests.finish(name, "w", Ended(RequestStatus.DONE))
    clock.sleep(3600)
    assert ledger.requests.trim(RequestKind.OBSERVE, clock.at) == 1
    assert {found.request_id for found in ledger.requests.list()} == {"plan", "new"}
    assert ledger.requests.events_after("look") == []
    assert len(ledger.requests.events_after("plan")) == 1


def test_what_killed_a_spark_is_counted(ledger: Ledger) -> None:
    asked(ledger)
    ledger.requests.claim("w")
    assert ledger.requests.give_back("q1", "w", died=True)
    assert ledger.requests.need("q1").takeovers == 1
