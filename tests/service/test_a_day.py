"""A day in fast-forward: two daemons on one PostgreSQL and one lake with a writer; one of them dies at work."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden.model.service import RequestStatus
from lakewarden.service.runner import loop
from tests.night.lake import FAR, GOOD, OTHER, REFUSED, NightLake, night_lake
from tests.service.days import Daemon, Days, Killed

pytestmark = pytest.mark.usefixtures("spark")
ORDER = ["snapshot-expiry", "partition-expiry", "tier-handoff", "physical-deletion", "orphan-cleanup"]
DAYS = int(os.environ.get("LW_DAYS", "7"))
Make = Callable[[int], Days]


@pytest.fixture
def days(tmp_path: Path, postgres_url: str) -> Iterator[Make]:
    made: list[Days] = []

    def make(daemons: int) -> Days:
        site = night_lake(tmp_path)
        site.database = postgres_url
        site.sections["orphan_cleanup"] |= {"confirmations": 1, "batch_size": 100}
        site.sections["service"] = {"observe_minutes": 240}
        site.build()
        made.append(Days(site, [Daemon.of(site, f"host-{n}") for n in range(daemons)]))
        return made[-1]

    yield make
    for one in made:
        one.close()
        one.site.close()


def test_every_job_runs_once_in_its_order_although_a_daemon_dies(days: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    day = days(2)
    died = dying_at(monkeypatch, "delete", day)
    day.begin_at(23, 50)
    day.settle()
    day.pass_by(7, hourly=None)
    assert len(died) == 1
    assert len(day.living) == 1
    done = day.scheduled()
    assert [request.job for request in done] == ORDER
    assert day.twice() == {}
    assert {request.status for request in done} <= {RequestStatus.DONE, RequestStatus.PARTIAL}, [
        (request.job, request.status, request.error) for request in done
    ]
    taken_over = [request for request in done if request.takeovers]
    assert [request.job for request in taken_over] == ["physical-deletion"]
    left_by_a_day(day)


def left_by_a_day(day: Days) -> None:
    """Every row is there, what nobody needs is not, and the record is whole."""
    site: NightLake = day.site
    rows = site.rows_now()
    for name in (OTHER, FAR, REFUSED):
        assert rows[name] == site.rows[name]
    assert set(site.rows[GOOD]) <= set(rows[GOOD])
    assert len(rows[GOOD]) == len(site.rows[GOOD]) + day.appended
    assert not any(path.exists() for path in site.planted)
    warden = day.living[0].runner.warden
    assert warden.audit_verify()["ok"]
    assert not warden.doctor()["open_intents"]


def dying_at(monkeypatch: pytest.MonkeyPatch, stage: str, day: Days) -> list[str]:
    """Let the first daemon that reaches a stage die there, once."""
    died: list[str] = []
    real = loop.Told.__call__

    def told(this: Any, now: str, done: int, total: int) -> None:
        real(this, now, done, total)
        if now == stage and done > 0 and not died:
            died.append(stage)
            raise Killed

    monkeypatch.setattr(loop.Told, "__call__", told)
    return died


@pytest.mark.soak
def test_days_end_at_the_memory_that_they_began_with(days: Make) -> None:
    day = days(2)
    day.begin_at(23, 50)
    day.settle()
    day.pass_by(1)
    first = memory()
    measured = [first]
    for _ in range(DAYS):
        day.pass_by(24)
        measured.append(memory())
    assert day.twice() == {}
    jobs = [request.job for request in day.scheduled()]
    assert jobs == ORDER * DAYS + ORDER[:2], jobs
    assert measured[-1] <= first * 1.1, [f"{size >> 20} MiB" for size in measured]


def memory() -> int:
    """The bytes that this process holds, without what the next collection would free."""
    gc.collect()
    with open("/proc/self/statm") as counted:
        return int(counted.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
