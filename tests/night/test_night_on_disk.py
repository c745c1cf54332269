"""Whole nights on local disk, for Iceberg and Paimon tables at once: what each job did, and what it left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden.model.errors import Exit
from lakewarden.model.night import JobOutcome, NightResult
from lakewarden.pipeline.spark import session
from tests.night.lake import FAR, GOOD, OTHER, REFUSED, NightLake, night_lake

pytestmark = pytest.mark.usefixtures("spark")

ORDER = ["snapshot-expiry", "partition-expiry", "tier-handoff", "physical-deletion", "orphan-cleanup"]


class Crash(BaseException):
    """The process dies here, as far as the code can tell."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[NightLake]:
    with night_lake(tmp_path) as site:
        site.build()
        yield site


def jobs(night: NightResult) -> dict[str, JobOutcome]:
    return {job.job: job for job in night.jobs}


def dying(stage: str, done: int = 1) -> Callable[[str, int, int], None]:
    def progress(now: str, reached: int, _: int) -> None:
        if now == stage and reached >= done:
            assert threading.current_thread() is threading.main_thread(), "a signal could not stop it here"
            raise Crash

    return progress


def left_by_three_nights(lake: NightLake) -> None:
    """What nights with and without accidents end in: only what the failing and the refused table need is left over."""
    assert lake.rows_now() == lake.rows
    assert not any(path.exists() for path in lake.planted)
    assert [lake.snapshots(name) for name in (GOOD, OTHER, FAR)] == [1, 1, 1]
    assert lake.snapshots(REFUSED) == 3
    assert not lake.warden.doctor()["open_intents"]
    assert lake.warden.audit_verify()["ok"]


def test_nights(lake: NightLake, monkeypatch: pytest.MonkeyPatch) -> None:
    applications: set[str] = set()
    real: Any = session.spark_session

    def noted(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        applications.add(found.sparkContext.applicationId)
        return found

    monkeypatch.setattr(session, "spark_session", noted)
    before = lake.files()

    first = lake.warden.night("all")

    assert [job.job for job in first.jobs] == ORDER, "manifest-rewrite is not enabled"
    assert len(applications) == 1
    found = jobs(first)
    assert {job.job: job.error or str(job.status) for job in first.jobs} == dict.fromkeys(ORDER, "done")
    assert found["snapshot-expiry"].changed["snapshots"] == 3 * 2 + 2
    assert {table.table for job in first.jobs for table in job.refused} >= {f"lake.{REFUSED}"}
    handoff = found["tier-handoff"]
    assert handoff.changed["snapshots"] == 4
    assert {table.table for table in handoff.refused} == {f"lake.{FAR}", f"lake.{REFUSED}", "stream.db.t"}
    assert found["physical-deletion"].left_alone == (f"lake.{REFUSED}", f"lake.{FAR}")
    assert found["physical-deletion"].changed == {}, "what was released tonight waits"
    assert found["orphan-cleanup"].changed == {"files": len(lake.planted)}
    assert before - lake.files() >= set(lake.planted)
    assert (first.exit_code(), first.exit_code(strict=True)) == (Exit.DONE, Exit.REFUSED)

    lake.later(2)
    waiting = {path for path in lake.pending() if path.exists()}
    far = {path for path in waiting if path.is_relative_to(lake.base / "warehouse" / "sales" / "far")}
    assert far
    second = jobs(lake.warden.night("all"))

    assert second["physical-deletion"].changed == {"files": len(waiting - far)}
    assert all(path.exists() for path in far), "these have no copy yet, so they must not go"
    assert second["orphan-cleanup"].changed == {}

    lake.policies = {}
    lake.close()
    third = lake.warden.night("all")

    assert third.exit_code() is Exit.DONE
    assert jobs(third)["tier-handoff"].changed["snapshots"] == 2
    assert jobs(third)["physical-deletion"].changed == {"files": len(far)}
    left_by_three_nights(lake)


def test_a_copy_that_fails_holds_the_deletion_back_and_is_made_the_next_night(lake: NightLake) -> None:
    lake.policies = {}
    lake.close()
    wall = lake.wall(FAR)

    failed = lake.warden.night("all")

    assert {job.job: str(job.status) for job in failed.jobs} == {
        "snapshot-expiry": "done",
        "partition-expiry": "done",
        "tier-handoff": "failed",
        "physical-deletion": "skipped",
        "orphan-cleanup": "done",
    }
    handoff = jobs(failed)["tier-handoff"]
    assert handoff.error is not None
    assert handoff.error.code == "LW-STORE-001"
    assert handoff.changed["snapshots"] == 4, "the other tables were copied"
    assert "cold tier" in str(jobs(failed)["physical-deletion"].skipped_because)
    assert failed.exit_code() is Exit.FAILED

    lake.later(2)
    assert str(jobs(lake.warden.night("all"))["physical-deletion"].status) == "skipped", "it fails again"
    assert all(path.exists() for path in lake.pending())
    wall.unlink()
    mended = lake.warden.night("all")

    assert mended.exit_code() is Exit.DONE
    assert [result.run_id for result in jobs(mended)["tier-handoff"].resumed] == [
        result.run_id for result in handoff.results
    ]
    assert all(not path.exists() for path in lake.pending())
    left_by_three_nights(lake)


@pytest.mark.parametrize(
    "stage",
    ["snapshot-expiry: expire", "tier-handoff: copy", "physical-deletion: delete", "orphan-cleanup: delete"],
)
def test_a_night_that_dies_and_is_repeated(lake: NightLake, stage: str) -> None:
    """Two nights, the second of which deletes; whichever of them dies is repeated. The end is that of a good night."""
    lake.policies = {}
    lake.close()
    died = 0
    for _ in range(2):
        told: list[NightResult] = []
        try:
            lake.warden.night("all", progress=dying(stage), told=told.append)
        except Crash:
            died += 1
            job = stage.partition(":")[0]
            assert [str(one.status) for one in told[-1].jobs if one.job == job] == ["stopped"]
            lake.close()  # as if the process were gone
            again = jobs(lake.warden.night("all"))
            assert len(again[job].resumed) == 1, "what was open is gone on with"
            assert again[job].resumed[0].run_id == next(one for one in told[-1].jobs if one.job == job).result.run_id  # type: ignore[union-attr]
        lake.later(2)
    assert died == 1
    assert lake.warden.night("all").exit_code() is Exit.DONE
    left_by_three_nights(lake)
    assert all(not path.exists() for path in lake.pending())


def test_dry_and_disabled_tables_are_left_alone(lake: NightLake) -> None:
    lake.policies = {
        f"lake.{OTHER}": {"snapshot_expiry": {"dry_run": True}},
        f"lake.{FAR}": {"snapshot_expiry": {"enabled": False}},
        "stream.*": {"snapshot_expiry": {"enabled": False}},
    }
    for section in ("partition_expiry", "tier_handoff", "physical_deletion", "orphan_cleanup"):
        lake.sections[section]["enabled"] = False
    lake.close()
    [job] = lake.warden.night("all").jobs
    assert job.job == "snapshot-expiry"
    assert [lake.snapshots(name) for name in (GOOD, OTHER, FAR)] == [1, 3, 3]
    assert job.planned == {"snapshots": 2}
    assert job.result is not None
    assert job.result.looked_at == (f"lake.{OTHER}",)

    named = lake.warden.run("snapshot-expiry", select=f"lake.{FAR}")

    assert (named.status, lake.snapshots(FAR)) == ("done", 1)


def test_a_planned_night(lake: NightLake, tmp_path: Path) -> None:
    before = lake.files()
    night = lake.warden.plan_night("all", out=str(tmp_path / "plans"))
    assert [job.job for job in night.jobs] == ORDER
    assert jobs(night)["orphan-cleanup"].planned == {"files": len(lake.planted)}
    assert jobs(night)["snapshot-expiry"].planned["snapshots"] == 8
    assert all((tmp_path / "plans" / job / "plan.json").exists() for job in ORDER)
    assert lake.files() == before
