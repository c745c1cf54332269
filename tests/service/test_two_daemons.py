"""Two daemons as real processes, one PostgreSQL and one lake: each is killed at work in turn, and nothing is lost or done twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.ledger.requests import Requests
from lakewarden.model.service import RequestKind, RequestStatus
from tests.service.test_serve import ADA, RUNNER, WEB, Served, served, until
from tests.support.worlds import World, hand_plan, make_world

pytestmark = pytest.mark.soak
# A daemon counts as dead after a minute, and the next slots of the schedule are a minute apart.
LONG = 400.0
SERVICE = """
[service]
observe_minutes = 1

[stale_branches]
enabled = true
cron = "* * * * *"
"""


@pytest.fixture
def world(tmp_path: Path, postgres_url: str) -> Iterator[World]:
    # One file a batch and a pause after each: there is time to kill somebody at work.
    policy = {"dry_run": False, "batch_size": 1, "orphans": 4}
    made = make_world(tmp_path / "world", ("sales.orders",), database=postgres_url, **policy)
    text = made.config.read_text().replace("rate_limit_ms = 0", "rate_limit_ms = 700")
    made.config.write_text(text + SERVICE)
    yield made
    made.close()


def test_each_daemon_is_killed_at_work_and_the_other_goes_on(world: World) -> None:
    plan = hand_plan(world)
    with served(world, name="first") as first, served(world, name="second") as second:
        until(lambda: first.answers() and second.answers(), "both answer")
        requests = first.service.ledger.requests
        requests.create("q1", RequestKind.APPLY, ADA, job="orphan-cleanup", arguments={"plan": plan.path})
        until(lambda: gone(world) >= 2, "some files are deleted")
        dead, living = (first, second) if works_on(requests, "q1") in names_of(first) else (second, first)
        kill_all(dead)
        left = gone(world)
        assert living.answers()
        assert 0 < left < len(world.planted())
        until(lambda: requests.need("q1").status.is_over, "the other one has ended the work", LONG)
        ended = requests.need("q1")
        assert (ended.status, ended.takeovers) == (RequestStatus.DONE, 1)
        assert ended.result is not None
        assert ended.result["deleted"]["files"] == len(world.planted())
        until(lambda: len(of_the_schedule(requests)) >= 6, "the schedule goes on", LONG)
        living.process.terminate()
        assert living.process.wait(LONG) == 0
        assert set(Counter(of_the_schedule(requests)).values()) == {1}
        assert len([run for run in first.service.ledger.runs.list() if run.job == "orphan-cleanup"]) == 1
    assert gone(world) == len(world.planted())
    assert world.lost() == set()
    assert world.warden.audit_verify()["ok"]
    assert not world.warden.doctor()["open_intents"]


def gone(world: World) -> int:
    return sum(not path.exists() for path in world.planted())


def works_on(requests: Requests, request_id: str) -> str:
    return str(requests.need(request_id).claimed_by)


def names_of(daemon: Served) -> list[str]:
    """The name that its runner was given."""
    words = Path(f"/proc/{daemon.child(RUNNER)}/cmdline").read_text().split("\0")
    return [words[words.index("--name") + 1]]


def kill_all(daemon: Served) -> None:
    """As when its machine dies."""
    for pid in [daemon.process.pid, daemon.child(RUNNER), *daemon.children(WEB)]:
        os.kill(pid, signal.SIGKILL)
    daemon.process.wait()


def of_the_schedule(requests: Requests) -> list[tuple[str | None, str]]:
    """What the schedule asked for, by job and by when it was due."""
    found = requests.list(limit=1000)
    return [(one.job, str(one.due_at)) for one in found if one.due_at is not None and one.status.is_over]
