"""What an earlier job's end means for a later request: who asked for it, and how often, makes no alarm unheard."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.requests import Ended, Request, error_values
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import InvariantViolationError, LakewardenError, StoreUnavailableError
from lakewarden.model.night import JobOutcome, JobStatus
from lakewarden.model.policy import Job
from lakewarden.model.run import RunResult, RunStatus
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.model.stop import StopToken
from lakewarden.night.dependence import held_back
from lakewarden.service.approval import AS_RUN, UNATTENDED
from lakewarden.service.runner.execute import Execution
from lakewarden.service.runner.told import Told
from lakewarden.service.service import Service
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring
from tests.service.clocks import PassedClock
from tests.support.service import service_in

SCHEDULE, ADA = Actor("schedule", "host-1", Trigger.SCHEDULE), Actor("ada", "host-1")
HANDOFF, ORPHANS, DELETION = "tier-handoff", "orphan-cleanup", "physical-deletion"
ALARM = InvariantViolationError("a file that a table needs was deleted")


class Day:
    """Requests that ended one after the other, and what the next one hears of them."""

    def __init__(self, service: Service, clock: PassedClock) -> None:
        self.requests, self.clock, self.service = service.ledger.requests, clock, service
        self.made = 0

    def ended(self, kind: RequestKind, job: str, error: LakewardenError | None = None, **arguments: object) -> None:
        self.made += 1
        name = f"q{self.made}"
        self.requests.create(name, kind, SCHEDULE, job=job, arguments=arguments)
        assert self.requests.claim("r") is not None
        self.clock.passed += timedelta(minutes=1)
        result = RunResult(run_id=f"run-{name}", plan_id="p", job=job, status=RunStatus.DONE)
        ended = Ended(RequestStatus.DONE, run_id=result.run_id, result=result.as_json())
        if error is not None:
            ended = Ended(RequestStatus.FAILED, error=error_values(error))
        assert self.requests.finish(name, "r", ended)

    def heard(self, job: str = DELETION) -> list[JobOutcome]:
        wiring = Wiring(self.service.settings, self.clock)
        request = Request(
            "now", RequestKind.RUN, job, {UNATTENDED: True}, SCHEDULE, RequestStatus.RUNNING, self.clock.now()
        )
        told, warden = Told(self.requests, "now"), Warden(wiring, self.service.settings)
        found = Execution(wiring.deployment, self.service.settings, warden, request, "r", told, StopToken())
        outcomes = found._outcomes_before()
        wiring.close()
        return outcomes


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    clock = PassedClock()
    service = service_in(tmp_path, clock=clock)
    yield Day(service, clock)
    service.warden.close()


def test_what_failed_is_heard_however_much_was_asked_for_since(day: Day) -> None:
    """Files whose handoff failed would be deleted before they are copied."""
    day.ended(RequestKind.RUN, HANDOFF, StoreUnavailableError("the cold store does not answer"), **{UNATTENDED: True})
    for _ in range(30):
        day.ended(RequestKind.RUN, HANDOFF)
    [heard] = day.heard()
    assert (heard.job, heard.status) == (HANDOFF, JobStatus.FAILED)
    day.clock.passed += timedelta(hours=27)
    assert day.heard() == [], "older outcomes say nothing of today"


def test_what_somebody_agreed_to_is_what_came_of_the_run(day: Day) -> None:
    """The run itself was over when its plan was agreed to; what was done is the plan's."""
    day.ended(RequestKind.RUN, HANDOFF, **{UNATTENDED: True})
    day.ended(RequestKind.APPLY, HANDOFF, StoreUnavailableError("away"), **{AS_RUN: True, UNATTENDED: True})
    assert [heard.status for heard in day.heard()] == [JobStatus.FAILED]
    day.ended(RequestKind.APPLY, HANDOFF, **{AS_RUN: True, UNATTENDED: True})
    assert [heard.status for heard in day.heard()] == [JobStatus.DONE]


def test_what_waits_for_somebody_to_agree_is_not_done(day: Day) -> None:
    """Yesterday's handoff went well; today's snapshots have expired, and nobody has agreed yet to copy their files."""
    day.ended(RequestKind.RUN, HANDOFF, **{UNATTENDED: True})
    day.requests.create("w", RequestKind.RUN, SCHEDULE, job=HANDOFF, arguments={UNATTENDED: True})
    assert day.requests.claim("r") is not None
    assert day.requests.finish("w", "r", Ended(RequestStatus.WAITING, plan_id="p"))
    assert [(heard.job, heard.status) for heard in day.heard()] == [(HANDOFF, JobStatus.SKIPPED)]
    held = held_back(JOBS[Job.PHYSICAL_DELETION], day.heard(), lambda *_: True)
    assert held.why is not None
    assert "before they are copied" in held.why
    assert day.heard(HANDOFF) == []
    assert day.requests.close_waiting("w", Ended(RequestStatus.DONE))
    assert [heard.status for heard in day.heard()] == [JobStatus.SKIPPED], "agreed to, and not yet applied"


@pytest.mark.parametrize("kind", [RequestKind.RUN, RequestKind.APPLY])
def test_an_alarm_is_heard_whoever_asked_for_what_raised_it(day: Day, kind: RequestKind) -> None:
    day.ended(RequestKind.RUN, ORPHANS, **{UNATTENDED: True})
    day.ended(kind, ORPHANS, ALARM)
    heard = day.heard()
    assert [(one.status, one.error.code if one.error else None) for one in heard] == [
        (JobStatus.DONE, None),
        (JobStatus.FAILED, ALARM.code),
    ]
    assert day.heard(ORPHANS) == []
    day.ended(kind, ORPHANS)
    assert [one.status for one in day.heard()] == [JobStatus.DONE], "somebody has looked, and gone on"


def test_a_plan_alone_says_nothing(day: Day) -> None:
    day.ended(RequestKind.PLAN, ORPHANS, ALARM)
    assert day.heard() == []
