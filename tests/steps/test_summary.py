"""What runs and plans say they changed: in the job's own words, without zeros, and never nothing at all."""

from __future__ import annotations

import pytest

from lakewarden.cli.run_text import closing_line, what_changed, what_next
from lakewarden.jobs.registry import JOBS
from lakewarden.model.plan import Tally
from lakewarden.model.policy import Job
from lakewarden.model.run import FailedFile, RefusedTable, RunResult, RunStatus
from lakewarden.steps.summary import plan_summary, planned_by
from tests.cli.fake_warden import NOW, plan_of, table

DELETED = {"changed": {"files": 26}, "deleted": Tally(26, 2048)}
TRASHED = {"changed": {"files": 26}, "quarantined": Tally(26, 2048), "restorable_until": NOW}
HELD = (RefusedTable("a", "LW-BRAKE-004", "too many", "Look."),) * 2
FAILED = (FailedFile("s3://b/x", "LW-STORE-001", "denied"),)


def run(job: str, status: str = "done", **what: object) -> RunResult:
    return RunResult("r", "p", job, RunStatus(status), **what)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "line", "summary"),
    [
        (run("orphan-cleanup", **DELETED), "deleted=26  freed=2.0 KiB", "26 files deleted (2.0 KiB)"),
        (run("physical-deletion", **TRASHED), "quarantined=26  size=2.0 KiB", "26 files quarantined (2.0 KiB)"),
        (run("orphan-cleanup", "partial", failed=FAILED, absent=2, **DELETED),
         "deleted=26  freed=2.0 KiB  absent=2  failed=1", "26 files deleted (2.0 KiB), 2 already gone, 1 failed"),
        (run("snapshot-expiry", changed={"snapshots": 12, "refs": 1, "changelogs": 0}, kept={"pending": 4}),
         "snapshots=12  refs=1  released=4", "12 snapshots, 1 ref expired"),
        (run("partition-expiry", changed={"partitions": 3}), "partitions=3", "3 partitions dropped"),
        (run("manifest-rewrite", changed={"manifests": 1}), "manifests=1", "1 manifest rewritten"),
        (run("history", changed={"rows": 9, "months": 2, "logs": 1}), "rows=9  months=2  logs=1",
         "9 rows archived, 2 months summed up, 1 log cut"),
        (run("tier-handoff", changed={"snapshots": 2, "files": 40}), "snapshots=2  copied=40",
         "2 snapshots, 40 files copied"),
        (run("orphan-cleanup", changed={"restored": 26}), "restored=26", "26 files restored"),
        (run("stale-branches", changed={"restored": 1}), "restored=1", "1 ref restored"),
        (run("tier-handoff", "failed", changed={"restored": 0}), "nothing was changed", "nothing was changed"),
        (run("snapshot-expiry"), "nothing to do", "nothing to do"),
        (run("orphan-cleanup", kept={"live": 9}), "nothing to do", "nothing to do"),
        (run("orphan-cleanup", kept={"live": 9, "revalidated": 4}), "nothing was changed  kept=4", "nothing was changed"),
        (run("orphan-cleanup", refused=HELD), "nothing was changed  refused=2", "nothing was changed, 2 refused"),
        (run("partition-expiry", changed={"partitions": 3}, refused=HELD), "partitions=3  refused=2",
         "3 partitions dropped, 2 refused"),
        (run("orphan-cleanup", "refused"), "nothing was changed", "nothing was changed"),
        (run("orphan-cleanup", "planned", planned={"files": 2}, to_trash=True), "2 files to move to the trash",
         "2 files to move to the trash"),
        (run("partition-expiry", "planned", planned={"partitions": 3}), "3 partitions to drop", "3 partitions to drop"),
        (run("history", "planned", planned={"rows": 9, "logs": 1}), "9 rows to archive, 1 log to cut",
         "9 rows to archive, 1 log to cut"),
    ],
)  # fmt: skip
def test_a_run_speaks_its_jobs_words(result: RunResult, line: str, summary: str) -> None:
    assert closing_line(result) == f"{result.status}  {line}  run=r"
    assert what_changed(result) == summary
    assert RunResult.of(result.as_json()) == result


@pytest.mark.parametrize("job", JOBS)
def test_every_job_says_what_it_did_and_what_can_be_taken_back(job: Job) -> None:
    spec = JOBS[job]
    result = run(job, **({**DELETED} if spec.deletes else {"changed": dict.fromkeys(spec.changes, 2)}))
    assert what_changed(result).startswith(f"2{'6' if spec.deletes else ''} {spec.changes[0]}")
    assert what_next(result) == [spec.words.undo.format(restore=f"lakewarden restore {result.run_id}")]
    assert what_next(run(job)) == []


def test_a_log_that_was_cut_is_no_nothing() -> None:
    assert what_next(run("history", changed={"rows": 0, "logs": 1})) == [
        "No snapshot and no file was taken from a table: the archive lies in the state location."
    ]


def test_quarantine_says_how_to_undo_it_and_until_when() -> None:
    assert what_next(run("orphan-cleanup", **TRASHED)) == [
        "To undo it until 2026-11-15 06:00 UTC: lakewarden restore r"
    ]


def test_files_of_a_versioned_bucket_can_be_brought_back_there() -> None:
    result = run("orphan-cleanup", deleted=Tally(3, 30), hidden=Tally(3, 30))
    assert what_next(result) == ["3 files can be brought back from the bucket's older versions."]
    assert closing_line(result) == "done  deleted=3  freed=0 Bytes  hidden=3  run=r"


def test_a_plan_is_told_in_one_line_too() -> None:
    spec = JOBS[Job.ORPHAN_CLEANUP]
    assert plan_summary(spec, plan_of(table("a", orphans=2), table("b"))) == "2 files to delete (2.0 GiB)"
    assert plan_summary(spec, plan_of(table("b"))) == "nothing to do"


def test_a_jobs_own_kind_is_told_first_however_the_plan_was_read() -> None:
    planned = planned_by(JOBS[Job.HISTORY], {"months": 2, "other": 1, "rows": 3})
    assert [count.kind for count in planned] == ["rows", "months", "other"]


def test_what_a_copy_in_the_cold_place_brings_back_is_not_said_to_be_lost() -> None:
    assert "restore --from-cold" in JOBS[Job.PHYSICAL_DELETION].words.undo
    assert "cannot be put back into their table" in JOBS[Job.SNAPSHOT_EXPIRY].words.undo
