"""The order of a day: said once, in the registry, and kept whatever a user types."""

from __future__ import annotations

import pytest

from lakewarden.jobs.registry import JOBS
from lakewarden.model.errors import UsageError
from lakewarden.model.policy import Job
from lakewarden.night.names import named_jobs


def test_the_registry_is_in_the_order_of_the_jobs_own_times() -> None:
    times = []
    for spec in JOBS.values():
        assert spec.cron is not None
        minute, hour, *_ = spec.cron.split()
        times.append((int(hour), int(minute)))
    assert times == sorted(times)


def test_every_job_comes_after_the_jobs_that_it_names() -> None:
    order = list(JOBS)
    for spec in JOBS.values():
        assert all(order.index(earlier) < order.index(spec.name) for earlier in spec.after), spec.name
        assert set(spec.needs) <= set(spec.after), spec.name


def test_expiry_then_the_copy_then_the_deletion_then_orphans() -> None:
    order = [*JOBS]
    wanted = [Job.SNAPSHOT_EXPIRY, Job.TIER_HANDOFF, Job.PHYSICAL_DELETION, Job.ORPHAN_CLEANUP]
    assert [job for job in order if job in wanted] == wanted


def test_named_jobs_run_once_each_in_the_order_of_a_day() -> None:
    found = named_jobs(["orphans", "physical-deletion", "snapshot-expiry", "orphan-cleanup"])
    assert found is not None
    assert [str(spec.name) for spec in found] == ["snapshot-expiry", "physical-deletion", "orphan-cleanup"]


def test_all_is_left_to_the_policies() -> None:
    assert named_jobs(["all"]) is None
    assert named_jobs(["all", "all"]) is None


@pytest.mark.parametrize("names", [["snapshot-expiry", "orphan"], ["all", "orphans"], []])
def test_a_name_that_is_no_job_stops_everything(names: list[str]) -> None:
    with pytest.raises(UsageError):
        named_jobs(names)
