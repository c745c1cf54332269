"""A day in fast-forward: two daemons on one PostgreSQL and one lake with a writer; one of them dies at work."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.requests import Request
from lakewarden.model.service import RequestStatus
from lakewarden.service.runner import loop
from tests.night.lake import FAR, GOOD, OTHER, REFUSED, NightLake, night_lake
from tests.service.clocks import PassedClock
from tests.service.days import Daemon, Days, Killed

pytestmark = pytest.mark.usefixtures("spark")
# Every job there is, in the order of a day: the archive, the rules and the branches before what expires snapshots.
ORDER = [
    "history",
    "lineage-check",
    "stale-branches",
    "snapshot-expiry",
    "partition-expiry",
    "compaction",
    "tier-handoff",
    "manifest-rewrite",
    "physical-deletion",
    "orphan-cleanup",
]
ENABLED = {"enabled": True, "dry_run": False}
DAYS = int(os.environ.get("LW_DAYS", "7"))
Make = Callable[[int], Days]


@pytest.fixture
def days(tmp_path: Path, postgres_url: str) -> Iterator[Make]:
    made: list[Days] = []

    def make(daemons: int) -> Days:
        site = night_lake(tmp_path)
        site.clock = PassedClock()
        site.database = postgres_url
        site.sections["orphan_cleanup"] |= {"confirmations": 1, "batch_size": 100}
        site.sections["service"] = {"observe_minutes": 240}
        for job in ("history", "lineage_check", "stale_branches", "compaction"):
            site.sections[job] = dict(ENABLED)
        # On Sundays by default: here every day has one.
        site.sections["manifest_rewrite"] = {**ENABLED, "cron": "30 2 * * *"}
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
    assert in_order(done) == ORDER
    assert set(ORDER) == {str(job) for job in JOBS}
    assert day.twice() == {}
    assert {request.status for request in done} <= {RequestStatus.DONE, RequestStatus.PARTIAL}, [
        (request.job, request.status, request.error) for request in done
    ]
    taken_over = [request for request in done if request.takeovers]
    assert [request.job for request in taken_over] == ["physical-deletion"]
    left_by_a_day(day)


def in_order(done: list[Request]) -> list[str]:
    """The jobs as they ended. Those that are due at midnight and wait for nobody come by name: two daemons share them."""
    jobs = [str(request.job) for request in done]
    free = [job for job, spec in JOBS.items() if not spec.after]
    for at in range(0, len(jobs), len(ORDER)):
        jobs[at : at + len(free)] = sorted(jobs[at : at + len(free)])
    return jobs


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
def test_days_end_at_the_memory_that_they_began_with(days: Make, spark: Any) -> None:
    day = days(2)
    day.begin_at(23, 50)
    day.settle()
    day.pass_by(1)
    measured = [memory(spark)]
    for _ in range(DAYS):
        day.pass_by(24)
        measured.append(memory(spark))
    assert day.twice() == {}
    jobs = in_order(day.scheduled())
    assert jobs == ORDER * DAYS + ORDER[:5], jobs
    for kind, first in measured[0].items():
        held = [found[kind] for found in measured]
        print(f"{kind}: {', '.join(f'{size >> 20} MiB' for size in held)}")
        assert held[-1] <= first * 1.1, f"{kind}: {[f'{size >> 20} MiB' for size in held]}"


def memory(spark: Any) -> dict[str, int]:
    """The bytes that this process and the heap of its JVM hold, without what the next collection would free."""
    gc.collect()
    spark._jvm.java.lang.System.gc()
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    with open("/proc/self/statm") as counted:
        own = int(counted.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {"Python": own, "JVM": int(runtime.totalMemory() - runtime.freeMemory())}
