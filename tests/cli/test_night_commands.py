"""`run JOB… | all` and `plan all`: what is asked of the worker, what is printed, what the shell is told."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.model.errors import Exit, Refusal, StateError
from lakewarden.model.night import JobOutcome, JobStatus
from lakewarden.model.plan import Tally
from lakewarden.model.run import FailedFile, RefusedTable, RunResult, RunStatus
from tests.cli.conftest import Answer
from tests.cli.fake_warden import REFUSAL, FakeWarden, table
from tests.support.signals import send

Lakewarden = Callable[..., Answer]
TABLE = RefusedTable("prod.a.cut", "LW-TABLE-002", "manifest m1.avro is cut", "Restore m1.avro from a backup.")
EXPIRED = RunResult("run-1", "p1", "snapshot-expiry", RunStatus.DONE, {"snapshots": 12, "refs": 1})
DELETED = RunResult("run-2", "p2", "physical-deletion", RunStatus.DONE, {"files": 3}, Tally(3, 3 * 2**30))
NIGHT = (
    JobOutcome("snapshot-expiry", JobStatus.DONE, seconds=4.21, result=EXPIRED, refused=(TABLE,)),
    JobOutcome("physical-deletion", JobStatus.DONE, seconds=75.2, result=DELETED),
    JobOutcome(
        "orphan-cleanup", JobStatus.PLANNED, seconds=2.0, refused=(TABLE,), planned={"files": 26}, plan_path="p 3"
    ),
)


@pytest.fixture
def night(warden: FakeWarden) -> FakeWarden:
    warden.outcomes = NIGHT
    return warden


def test_the_closing_table(night: FakeWarden, lakewarden: Lakewarden) -> None:
    answer = lakewarden("run", "all")
    assert answer.code == 0
    assert answer.out == (
        "REFUSED prod.a.cut   LW-TABLE-002   by snapshot-expiry, orphan-cleanup\n"
        "  manifest m1.avro is cut\n"
        "  next: Restore m1.avro from a backup.\n"
        "\n"
        "job                status   what it did                  refused        time\n"
        "snapshot-expiry    done     12 snapshots, 1 ref expired        1       4.2 s\n"
        "physical-deletion  done     3 files deleted (3.0 GiB)             1 min 15 s\n"
        "orphan-cleanup     planned  26 files to delete                 1       2.0 s\n"
        "To do what orphan-cleanup planned: lakewarden apply 'p 3' --yes\n"
        "done: 2 done, 1 planned in 1 min 21 s; 1 table refused\n"
    )


def test_all_is_asked_for_as_all_and_names_in_the_order_of_a_day(night: FakeWarden, lakewarden: Lakewarden) -> None:
    lakewarden("run", "all", "--select", "prod.*", "--exclude", "prod.b.*", "--wait", "5")
    name, given = night.calls[-1]
    assert (name, given["jobs"], given["wait"]) == ("night", ["all"], 5)
    assert (given["select"], given["exclude"]) == (("prod.*",), ("prod.b.*",))
    lakewarden("run", "orphans", "snapshot-expiry", "orphan-cleanup")
    assert night.calls[-1][1]["jobs"] == ["snapshot-expiry", "orphan-cleanup"]


def test_one_job_named_twice_is_one_run_with_its_own_document(night: FakeWarden, lakewarden: Lakewarden) -> None:
    answer = lakewarden("run", "orphans", "orphan-cleanup", "--output", "json")
    assert night.calls[-1][0] == "run"
    assert answer.json["run_id"] == "run-1"


def test_the_document_of_a_night(night: FakeWarden, lakewarden: Lakewarden) -> None:
    document = lakewarden("run", "all", "--output", "json").json
    assert (document["night_id"], document["status"]) == ("night-1", "done")
    assert [job["job"] for job in document["jobs"]] == ["snapshot-expiry", "physical-deletion", "orphan-cleanup"]
    assert document["jobs"][0]["refused"][0]["code"] == "LW-TABLE-002"
    assert document["totals"] == {
        "jobs": 3,
        "deleted": {"files": 3, "bytes": 3 * 2**30},
        "quarantined": {"files": 0, "bytes": 0},
        "failed": 0,
        "refused": 1,
        "seconds": 81.4,
    }


def test_an_unknown_name_is_told_before_anything_runs(night: FakeWarden, lakewarden: Lakewarden) -> None:
    for words in (("run", "all", "orphans"), ("run", "orphans", "nope"), ("plan", "nope")):
        assert lakewarden(*words).code == 64
    assert night.calls == []


def test_failed_and_skipped_jobs_say_why(night: FakeWarden, lakewarden: Lakewarden) -> None:
    why = "tier-handoff failed (LW-STORE-001): files of expired snapshots would be deleted before they are copied"
    night.outcomes = (
        JobOutcome(
            "tier-handoff", JobStatus.FAILED, NIGHT[0].exit_code.FAILED, 1.0,
            error=Refusal("LW-STORE-001", "s3://cold does not answer; nothing was copied", "Try again."),
        ),
        JobOutcome("physical-deletion", JobStatus.SKIPPED, skipped_because=why),
    )  # fmt: skip
    answer = lakewarden("run", "all")
    assert answer.code == 1
    assert answer.out.startswith(
        "FAILED tier-handoff   LW-STORE-001\n  s3://cold does not answer; nothing was copied\n"
    )
    assert f"physical-deletion  skipped  {why}" in answer.out
    assert answer.out.endswith("failed: 1 failed, 1 skipped in 1.0 s\n")


def test_a_frozen_night_says_what_lifts_the_freeze(night: FakeWarden, lakewarden: Lakewarden) -> None:
    why = "ana froze this deployment on 2026-11-15 06:00 UTC"
    night.outcomes = (JobOutcome("orphan-cleanup", JobStatus.SKIPPED, Exit.REFUSED, skipped_because=why),)
    answer = lakewarden("run", "all", "--config", "my.toml")
    assert answer.code == 4
    assert "When the reason for the freeze is gone: lakewarden unfreeze --config my.toml\n" in answer.out


def test_files_that_failed_are_named(night: FakeWarden, lakewarden: Lakewarden) -> None:
    failed = (FailedFile("s3://b/x", "LW-STORE-001", "denied"),)
    result = replace(DELETED, status=RunStatus.PARTIAL, failed=failed)
    night.outcomes = (JobOutcome("physical-deletion", JobStatus.PARTIAL, result.exit_code, 1.0, result=result),)
    answer = lakewarden("run", "all")
    assert answer.code == 3
    assert "FAILED physical-deletion   s3://b/x   LW-STORE-001 denied\n" in answer.out
    assert "physical-deletion  partial  3 files deleted (3.0 GiB), 1 failed" in answer.out
    assert "Not everything was done. It is safe to run the same command again.\n" in answer.out


def test_after_a_night_it_says_how_to_undo_what_can_be_undone(night: FakeWarden, lakewarden: Lakewarden) -> None:
    until = datetime(2026, 1, 22, 6, 0, tzinfo=UTC)
    trashed = RunResult(
        "run-3", "p3", "orphan-cleanup", RunStatus.DONE, {"files": 5}, quarantined=Tally(5, 50), restorable_until=until
    )
    branches = RunResult("run-4", "p4", "stale-branches", RunStatus.DONE, {"refs": 1})
    earlier = replace(trashed, run_id="run-0", restorable_until=None)
    night.outcomes = (
        JobOutcome("stale-branches", JobStatus.DONE, result=branches),
        *NIGHT[:2],
        JobOutcome("orphan-cleanup", JobStatus.DONE, result=trashed, resumed=(earlier,)),
    )
    out = lakewarden("run", "all", "--config", "my.toml").out
    assert [line for line in out.splitlines() if line.startswith("To undo")] == [
        "To undo what stale-branches did: lakewarden restore run-4 --config my.toml",
        "To undo what orphan-cleanup did: lakewarden restore run-0 --config my.toml",
        "To undo what orphan-cleanup did until 2026-01-22 06:00 UTC: lakewarden restore run-3 --config my.toml",
    ]


def test_tables_that_were_only_looked_at_are_told_beside_what_was_done(
    night: FakeWarden, lakewarden: Lakewarden
) -> None:
    night.outcomes = (replace(NIGHT[1], planned={"files": 5}),)
    assert "3 files deleted (3.0 GiB); only planned: 5 files to delete" in lakewarden("run", "all").out


def test_files_that_would_be_quarantined_are_not_said_to_be_deleted(night: FakeWarden, lakewarden: Lakewarden) -> None:
    night.outcomes = (replace(NIGHT[1], planned={"files": 5}, to_trash=True), replace(NIGHT[2], to_trash=True))
    answer = lakewarden("run", "all")
    assert "3 files deleted (3.0 GiB); only planned: 5 files to move to the trash" in answer.out
    assert "orphan-cleanup     planned  26 files to move to the trash " in answer.out
    jobs = lakewarden("run", "all", "--output", "json").json["jobs"]
    assert [job["to_trash"] for job in jobs] == [True, True]


def test_where_nothing_is_enabled_the_command_says_so(warden: FakeWarden, lakewarden: Lakewarden) -> None:
    answer = lakewarden("run", "all")
    assert (answer.code, answer.out.splitlines()[0]) == (
        0,
        "No job is enabled for any selected table, so there was nothing to do.",
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_signal_ends_the_night_with_what_was_done(
    night: FakeWarden, lakewarden: Lakewarden, number: signal.Signals, code: int, form: str
) -> None:
    night.outcomes = (NIGHT[0], JobOutcome("orphan-cleanup", JobStatus.STOPPED, seconds=1.0))
    night.during = lambda _: send(number)
    answer = lakewarden("run", "all", "--output", form)
    assert answer.code == code
    if form == "json":
        assert [job["status"] for job in answer.json["jobs"]] == ["done", "stopped"]
        assert (answer.json["status"], answer.json["night_id"]) == ("stopped", "night-1")
        return
    assert "orphan-cleanup   stopped  stopped before it changed anything" in answer.out
    assert answer.out.endswith("stopped: 1 done, 1 stopped in 5.2 s; 1 table refused\n")


def test_strict_tells_of_refused_tables(night: FakeWarden, lakewarden: Lakewarden) -> None:
    assert lakewarden("run", "all", "--strict").code == 4
    night.result = replace(night.result, refused=(TABLE,))
    assert lakewarden("run", "orphans").code == 0
    assert lakewarden("run", "orphans", "--strict").code == 4
    night.result = replace(night.result, status=RunStatus.PARTIAL)
    assert lakewarden("run", "orphans", "--strict").code == 3


def test_one_run_tells_of_refused_tables_and_of_those_it_only_looked_at(
    night: FakeWarden, lakewarden: Lakewarden
) -> None:
    night.result = replace(night.result, refused=(TABLE,), looked_at=("prod.a.u", "prod.a.v"), planned={"files": 5})
    out = lakewarden("run", "orphans").out
    assert out.startswith("REFUSED prod.a.cut   LW-TABLE-002\n  manifest m1.avro is cut\n")
    assert out.endswith(
        "Only looked at, because of dry_run: 2 tables, 5 files to delete. "
        "To plan them for an apply: lakewarden plan orphan-cleanup --select prod.a.u\n"
    )


def test_plan_all_shows_each_plan_and_the_table(night: FakeWarden, lakewarden: Lakewarden) -> None:
    night.outcomes = (JobOutcome("orphan-cleanup", JobStatus.PLANNED, planned={"files": 3}, plan_path="plans/o"),)
    answer = lakewarden("plan", "all", "--out", "plans")
    assert night.calls[-1][1]["out"] == "plans"
    assert answer.out.startswith("PLAN orphan-cleanup")
    assert "what it would do " in answer.out
    assert "orphan-cleanup  planned  3 files to delete" in answer.out
    assert "what it did" not in answer.out
    assert answer.out.endswith("planned: 1 planned in 0.0 s\n")
    assert lakewarden("plan", "all", "--output", "json").json["jobs"][0]["planned"] == {"files": 3}


def test_detailed_exit_codes(warden: FakeWarden, lakewarden: Lakewarden) -> None:
    assert lakewarden("plan", "orphans").code == 0
    assert lakewarden("plan", "orphans", "--detailed-exitcode").code == 2
    warden.tables_planned = (table("prod.a.t"),)
    assert lakewarden("plan", "orphans", "--detailed-exitcode").code == 0
    warden.tables_planned = (table("prod.a.t", orphans=3), table("prod.a.cut", refusal=REFUSAL))
    assert lakewarden("plan", "orphans", "--detailed-exitcode").code == 2
    assert lakewarden("plan", "orphans", "--detailed-exitcode", "--strict").code == 4
    warden.tables_planned = (table("prod.a.cut", refusal=REFUSAL),)
    assert lakewarden("plan", "orphans", "--detailed-exitcode").code == 4
    warden.outcomes = (JobOutcome("orphan-cleanup", JobStatus.PLANNED, planned={"files": 3}),)
    assert lakewarden("plan", "all", "--detailed-exitcode").code == 2
    warden.outcomes = (JobOutcome("orphan-cleanup", JobStatus.PLANNED),)
    assert lakewarden("plan", "all", "--detailed-exitcode").code == 0


def test_a_report_afterwards(night: FakeWarden, lakewarden: Lakewarden, tmp_path: Path) -> None:
    page = tmp_path / "night.html"
    answer = lakewarden("run", "all", "--report", str(page))
    assert (answer.code, night.calls[-1][0]) == (0, "report")
    assert answer.out.endswith(f"report: {page}   2.0 KiB\n")
    assert lakewarden("run", "orphans", "--report", str(page), "--output", "json").json["run_id"] == "run-1"


def test_a_report_that_cannot_be_written_is_told_before_any_job_runs(
    night: FakeWarden, lakewarden: Lakewarden, tmp_path: Path
) -> None:
    for place in (tmp_path, tmp_path / "nowhere" / "night.html"):
        assert lakewarden("run", "all", "--report", str(place)).code == 64
    assert night.calls == []


def test_a_report_that_fails_afterwards_hides_nothing_of_the_night(
    night: FakeWarden, lakewarden: Lakewarden, tmp_path: Path
) -> None:
    def fail(name: str) -> None:
        if name == "report":
            raise StateError("the state cannot be read")

    night.during = fail
    answer = lakewarden("run", "all", "--report", str(tmp_path / "n.html"), "--output", "json")
    assert (answer.code, answer.json["status"]) == (StateError.exit_code, "done")
    assert "the state cannot be read" in answer.err


def test_a_job_whose_tables_brakes_hold_is_not_one_with_nothing_to_do(
    lakewarden: Lakewarden, night: FakeWarden
) -> None:
    held = {"orphan-share": ("prod.a.t", "prod.a.u"), "orphan-cap": ("prod.a.t",)}
    night.outcomes = (JobOutcome("orphan-cleanup", JobStatus.PLANNED, brakes=held, plan_path="plans/o"),)
    for command in ("plan", "run"):
        told = lakewarden(command, "all").out
        assert "nothing to do" not in told
        assert "brakes hold 2 tables" in told
        assert "What brakes hold of orphan-cleanup: lakewarden show plans/o" in told
