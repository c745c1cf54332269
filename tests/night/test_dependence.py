"""What an earlier job's end keeps a later one from: nothing, unless order is safety."""

from __future__ import annotations

import pytest

from lakewarden.jobs.registry import JOBS
from lakewarden.model.errors import Exit, Refusal
from lakewarden.model.night import JobOutcome, JobStatus
from lakewarden.model.policy import Job
from lakewarden.model.run import FailedFile, RefusedTable, RunResult, RunStatus
from lakewarden.night.dependence import HeldBack
from lakewarden.night.dependence import held_back as held_back_by
from lakewarden.steps.job import JobSpec

DELETION, ORPHANS = JOBS[Job.PHYSICAL_DELETION], JOBS[Job.ORPHAN_CLEANUP]


def held_back(spec: JobSpec, before: list[JobOutcome]) -> HeldBack:
    """Tables of the catalog `stream` are never copied."""
    return held_back_by(spec, before, lambda job, table: not table.startswith("stream."))


def ended(job: Job, status: JobStatus = JobStatus.FAILED, code: str | None = "LW-STORE-001") -> JobOutcome:
    return JobOutcome(job, status, Exit.FAILED, error=Refusal(code, "m", "h") if code else None)


@pytest.mark.parametrize("job", [Job.SNAPSHOT_EXPIRY, Job.PARTITION_EXPIRY, Job.MANIFEST_REWRITE])
def test_no_job_waits_for_what_only_changes_metadata(job: Job) -> None:
    for spec in JOBS.values():
        found = held_back(spec, [ended(job)])
        assert (found.why, found.tables) == (None, frozenset())


def test_deletion_is_skipped_when_the_copy_to_the_cold_tier_failed() -> None:
    found = held_back(DELETION, [ended(Job.SNAPSHOT_EXPIRY, JobStatus.DONE, None), ended(Job.TIER_HANDOFF)])
    assert found.why == (
        "tier-handoff failed (LW-STORE-001): files of expired snapshots would be deleted before they are copied to the "
        "cold tier"
    )
    assert held_back(ORPHANS, [ended(Job.TIER_HANDOFF)]).why is None


def test_deletion_leaves_only_the_tables_alone_that_were_not_copied() -> None:
    failed = (FailedFile("lake.a.failed", "LW-STORE-001", "denied"),)
    result = RunResult("r", "p", Job.TIER_HANDOFF, RunStatus.PARTIAL, {"snapshots": 1}, failed=failed)
    refused = (
        RefusedTable("lake.a.refused", "LW-TABLE-002", "m", "h"),
        RefusedTable("stream.a.t", "LW-TABLE-003", "m", "h"),
    )
    handoff = JobOutcome(Job.TIER_HANDOFF, JobStatus.PARTIAL, Exit.PARTIAL, result=result, refused=refused)
    found = held_back(DELETION, [handoff])
    assert (found.why, found.tables) == (None, {"lake.a.failed", "lake.a.refused"}), "and not one that never is copied"


def test_a_copy_that_was_only_planned_holds_nothing_back() -> None:
    planned = JobOutcome(Job.TIER_HANDOFF, JobStatus.PLANNED, planned={"files": 3})
    assert held_back(DELETION, [planned]).tables == frozenset()


@pytest.mark.parametrize("code", ["LW-APPLY-003", "LW-APPLY-004"])
def test_nothing_more_is_deleted_after_a_sign_that_needed_files_go(code: str) -> None:
    before = [ended(Job.PHYSICAL_DELETION, JobStatus.FAILED, code)]
    assert held_back(ORPHANS, before).why is not None
    assert code in str(held_back(ORPHANS, before).why)
    assert held_back(JOBS[Job.MANIFEST_REWRITE], before).why is None
