"""What a shell and a program are told of several jobs."""

from __future__ import annotations

import pytest

from lakewarden.model.errors import Exit
from lakewarden.model.night import WORST_FIRST, JobOutcome, JobStatus, NightResult, status_of, worst
from lakewarden.model.plan import Tally
from lakewarden.model.run import RefusedTable, RunResult, RunStatus

REFUSED = (RefusedTable("lake.a.t", "LW-TABLE-002", "m", "h"),)


def job(status: JobStatus, code: Exit = Exit.DONE, *, changed: int = 0, refused: bool = False) -> JobOutcome:
    result = RunResult("r", "p", "orphan-cleanup", RunStatus.DONE, {"files": changed}, Tally(changed, 10 * changed))
    return JobOutcome("orphan-cleanup", status, code, 1.26, result=result, refused=REFUSED if refused else ())


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], Exit.DONE),
        ([Exit.DONE, Exit.DONE], Exit.DONE),
        ([Exit.DONE, Exit.REFUSED], Exit.REFUSED),
        ([Exit.REFUSED, Exit.PARTIAL], Exit.PARTIAL),
        ([Exit.PARTIAL, Exit.FAILED, Exit.REFUSED], Exit.FAILED),
        ([Exit.LEASE_HELD, Exit.REFUSED], Exit.REFUSED),
        ([Exit.LEASE_HELD, Exit.DONE], Exit.LEASE_HELD),
        ([Exit.USAGE, Exit.PARTIAL], Exit.USAGE),
    ],
)
def test_the_worst_counts(codes: list[Exit], expected: Exit) -> None:
    assert worst(codes) is expected


def test_every_code_that_a_job_can_end_with_has_its_place() -> None:
    assert set(WORST_FIRST) == set(Exit) - {Exit.INTERRUPTED, Exit.TERMINATED, Exit.CHANGES_WAIT}


def test_a_job_is_called_what_its_code_says() -> None:
    assert {code: status_of(code) for code in (Exit.DONE, Exit.PARTIAL, Exit.REFUSED)} == {
        Exit.DONE: JobStatus.DONE,
        Exit.PARTIAL: JobStatus.PARTIAL,
        Exit.REFUSED: JobStatus.REFUSED,
    }
    assert status_of(Exit.LEASE_HELD) is JobStatus.FAILED


def test_strict_tells_of_a_refused_table_where_nothing_worse_is() -> None:
    some = NightResult("n", (job(JobStatus.DONE, refused=True),))
    assert (some.exit_code(), some.exit_code(strict=True)) == (Exit.DONE, Exit.REFUSED)
    worse = NightResult("n", (*some.jobs, job(JobStatus.PARTIAL, Exit.PARTIAL)))
    assert worse.exit_code(strict=True) is Exit.PARTIAL
    none = NightResult("n", (job(JobStatus.DONE),))
    assert none.exit_code(strict=True) is Exit.DONE


def test_a_signal_says_so_whatever_the_jobs_were() -> None:
    night = NightResult("n", (job(JobStatus.FAILED, Exit.FAILED), job(JobStatus.STOPPED)), Exit.TERMINATED)
    assert (night.status, night.exit_code(strict=True)) == (JobStatus.STOPPED, Exit.TERMINATED)


def test_a_night_that_only_planned_is_planned() -> None:
    assert NightResult("n", (job(JobStatus.PLANNED), job(JobStatus.DONE))).status is JobStatus.PLANNED
    assert NightResult("n", (job(JobStatus.PLANNED), job(JobStatus.DONE, changed=1))).status is JobStatus.DONE
    assert NightResult("n", ()).status is JobStatus.DONE


def test_counts_of_resumed_runs_are_in_the_document() -> None:
    earlier = RunResult("r0", "p0", "orphan-cleanup", RunStatus.DONE, {"files": 2}, Tally(2, 20))
    outcome = JobOutcome(
        "orphan-cleanup", JobStatus.DONE, result=job(JobStatus.DONE, changed=3).result, resumed=(earlier,)
    )
    document = NightResult("n", (outcome,)).as_json()
    assert document["jobs"][0]["changed"] == {"files": 5}
    assert document["jobs"][0]["resumed"] == ["r0"]
    assert document["totals"]["deleted"] == {"files": 5, "bytes": 50}


def test_a_table_that_two_jobs_refused_counts_once() -> None:
    night = NightResult("n", (job(JobStatus.DONE, refused=True), job(JobStatus.DONE, refused=True)))
    assert night.as_json()["totals"]["refused"] == 1
