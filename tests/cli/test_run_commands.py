"""apply, run, runs, restore, abandon: approval, counts, exit codes and signals."""

from __future__ import annotations

import io
import os
import signal
import time
from typing import Any

import pytest

from lakewarden.cli.run_detail_text import show_detail
from lakewarden.cli.screen import Screen
from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Tally
from lakewarden.model.run import FailedFile, RefusedTable, RunResult, RunStatus
from lakewarden.model.standing import PlanState, Standing
from tests.cli.fake_warden import NOW, table
from tests.support.signals import send


def at_a_terminal(monkeypatch: Any, answer: bool) -> list[str]:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("lakewarden.cli.asking.answer_to", lambda question: asked.append(question) or answer)
    return asked


def test_apply_without_a_terminal_needs_yes(lakewarden: Any, warden: Any) -> None:
    answer = lakewarden("apply", "p", "--output", "json")
    assert (answer.code, answer.json["error"]["code"]) == (64, "LW-APPLY-005")
    assert warden.calls == []


def test_apply_asks_on_a_terminal_and_takes_no_for_an_answer(lakewarden: Any, warden: Any, monkeypatch: Any) -> None:
    asked = at_a_terminal(monkeypatch, False)
    answer = lakewarden("apply", "p")
    assert asked == ["Delete 3 files (3.0 GiB)?"]
    assert "TO DELETE" in answer.err
    assert answer.out == ""
    assert answer.code == 64
    assert [name for name, _ in warden.calls] == ["load_plan"]


def test_a_quarantine_asks_to_move_and_a_lifted_brake_counts(lakewarden: Any, warden: Any, monkeypatch: Any) -> None:
    asked = at_a_terminal(monkeypatch, False)
    pulled = Refusal("LW-BRAKE-004", "too many", "Look.")
    warden.tables_planned = (table("a", orphans=3, delete_mode="quarantine"), table("b", orphans=5, refusal=pulled))
    warden.brakes = {"orphan-share": ("b",)}
    lakewarden("apply", "p")
    lakewarden("apply", "p", "--override-brake", "orphan-share")
    assert asked == ["Move 3 files to the trash (3.0 GiB)?", "Move 8 files to the trash (8.0 GiB)?"]


def test_nobody_is_asked_about_a_plan_that_is_over(lakewarden: Any, warden: Any, monkeypatch: Any) -> None:
    asked = at_a_terminal(monkeypatch, True)
    warden.stands = Standing(PlanState.USED, "run-1", NOW, "done", "3 files deleted (3.0 GiB)")
    answer = lakewarden("apply", "p")
    assert (asked, answer.code) == ([], 5)
    assert "was used by run run-1" in answer.err


def test_apply_goes_on_after_yes(lakewarden: Any, warden: Any, monkeypatch: Any) -> None:
    at_a_terminal(monkeypatch, True)
    assert lakewarden("apply", "p").code == 0
    assert [name for name, _ in warden.calls] == ["load_plan", "apply"]


def test_what_is_applied_is_the_plan_that_was_shown(lakewarden: Any, warden: Any, monkeypatch: Any) -> None:
    """Not whatever lies in its directory when the answer is typed."""
    at_a_terminal(monkeypatch, True)
    lakewarden("apply", "p")
    chosen = warden.calls[-1][1]["plan_dir"]
    assert chosen == warden.load_plan("p")
    lakewarden("apply", "p", "--yes")
    assert warden.calls[-1][1]["plan_dir"] == "p"


@pytest.mark.parametrize(
    ("state", "why", "code", "words"),
    [
        (PlanState.FROZEN, "ana: month end", 4, "LW-APPLY-001 this deployment is frozen since 2026-11-15 06:00 UTC"),
        (PlanState.FOREIGN, "", 5, "LW-PLAN-001 plan "),
        (PlanState.UNSEEN, "no configured catalog holds a.b", 5, "LW-PLAN-005 no configured catalog holds a.b"),
    ],
)
def test_nobody_is_asked_about_what_cannot_be_done_now(
    lakewarden: Any, warden: Any, monkeypatch: Any, state: PlanState, why: str, code: int, words: str
) -> None:
    asked = at_a_terminal(monkeypatch, True)
    warden.stands = Standing(state, at=NOW, why=why)
    answer = lakewarden("apply", "p")
    assert (asked, answer.code) == ([], code)
    assert words in answer.err
    assert [name for name, _ in warden.calls] == ["load_plan"]


def test_nobody_is_asked_whether_nothing_is_to_be_deleted(lakewarden: Any, warden: Any, monkeypatch: Any) -> None:
    asked = at_a_terminal(monkeypatch, False)
    warden.tables_planned = (table("a"),)
    assert lakewarden("apply", "p").code == 0
    assert asked == []


def test_the_question_counts_the_brakes_that_the_run_goes_on_without(
    lakewarden: Any, warden: Any, monkeypatch: Any
) -> None:
    asked = at_a_terminal(monkeypatch, False)
    pulled = Refusal("LW-BRAKE-004", "too many", "Look.")
    warden.tables_planned = (table("a", orphans=3), table("b", orphans=5, refusal=pulled))
    warden.brakes = {"orphan-share": ("b",)}
    warden.stands = Standing(PlanState.OPEN, "run-1", NOW, "stopped", lifted=("orphan-share",))
    lakewarden("apply", "p")
    assert asked == ["Delete 8 files (8.0 GiB)?"]


def test_apply_hands_over_brakes_by_name(lakewarden: Any, warden: Any) -> None:
    answer = lakewarden("apply", "p", "--yes", "--override-brake", "orphan-share", "--override-brake", "orphan-cap")
    assert answer.code == 0
    assert warden.calls[0][1]["override_brakes"] == ("orphan-share", "orphan-cap")
    assert lakewarden("apply", "p", "--yes", "--override-brake", "all").code == 64


def test_the_closing_line_has_every_count_that_is_not_zero(lakewarden: Any, warden: Any, partial: RunResult) -> None:
    warden.result = partial
    answer = lakewarden("apply", "p", "--yes")
    assert "partial  deleted=2  freed=2.0 KiB  absent=1  kept=4  failed=1  run=run-2" in answer.out
    assert "FAILED s3://b/x   LW-STORE-001 denied" in answer.out
    assert answer.code == 3


def test_run_json_is_the_interfaces(lakewarden: Any, warden: Any, partial: RunResult) -> None:
    warden.result = partial
    assert lakewarden("run", "orphans", "--output", "json").json == {
        "run_id": "run-2",
        "plan_id": "plan-1",
        "job": "orphan-cleanup",
        "status": "partial",
        "changed": {"files": 2},
        "deleted": {"files": 2, "bytes": 2048},
        "absent": 1,
        "hidden": {"files": 0, "bytes": 0},
        "quarantined": {"files": 0, "bytes": 0},
        "kept": {"changed": 4},
        "failed": [{"uri": "s3://b/x", "code": "LW-STORE-001", "message": "denied"}],
        "failures": 1,
        "planned": {},
        "restorable_until": None,
        "looked_at": [],
        "refused": [],
        "to_trash": False,
    }


@pytest.mark.parametrize(
    ("status", "code"), [("done", 0), ("planned", 0), ("partial", 3), ("refused", 4), ("failed", 1)]
)
def test_each_status_has_its_exit_code(lakewarden: Any, warden: Any, status: str, code: int) -> None:
    warden.result = RunResult("r", "p", "orphan-cleanup", RunStatus(status), deleted=Tally())
    assert lakewarden("run", "orphans").code == code


def test_a_dry_run_says_what_to_type_next(lakewarden: Any, warden: Any) -> None:
    warden.result = RunResult("r", "p", "orphan-cleanup", RunStatus.PLANNED, plan_path="state/p")
    assert "Nothing has been deleted (dry_run = true). To do exactly this: lakewarden apply state/p --yes" in (
        lakewarden("run", "orphans").out
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_waits_for_the_end_of_the_batch(lakewarden: Any, warden: Any, number: int, code: int) -> None:
    reached: list[str] = []

    def during(name: str) -> None:
        send(number)
        reached.append(name)

    warden.during = during
    answer = lakewarden("apply", "p", "--yes", "--output", "json")
    assert reached == ["apply"]
    assert "batches  2 of 2" not in answer.err
    assert (answer.code, answer.json["error"]["code"]) == (code, "LW-CORE-002")


def test_a_second_signal_does_not_wait(lakewarden: Any, warden: Any) -> None:
    def during(_: str) -> None:
        send(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
        raise AssertionError("the second signal must end the command here")

    warden.during = during
    answer = lakewarden("apply", "p", "--yes")
    assert answer.code == 143
    assert "batches" not in answer.err


def test_a_signal_ends_a_plan_at_once_and_handlers_are_put_back(lakewarden: Any, warden: Any) -> None:
    before = signal.getsignal(signal.SIGTERM)
    warden.during = lambda _: send(signal.SIGTERM)
    assert lakewarden("plan", "orphans").code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_runs_lists_and_shows_one(lakewarden: Any, warden: Any) -> None:
    out = lakewarden("runs", "--limit", "3").out
    assert warden.calls[0] == ("runs", {"limit": 3})
    assert "run-1" in out
    assert "3 files deleted (3.0 GiB)" in out
    shown = lakewarden("runs", "run-1", "--output", "json").json
    assert (shown["deleted"], shown["changed"], shown["act"]) == (3, {"files": 3}, "apply")
    assert shown["summary"] == "3 files deleted (3.0 GiB)"
    assert lakewarden("runs", "nope").code == 10


def test_one_run_in_full_is_words_and_no_reprs(lakewarden: Any, warden: Any) -> None:
    out = lakewarden("runs", "run-1").out
    assert out.splitlines()[0] == "RUN run-1   orphan-cleanup   done"
    assert "by          ada on host-1 (manual)" in out
    assert "2026-11-15 06:00:04 UTC  started         by=ada\n" in out
    assert not set("{}[]'") & set(out)


def test_what_a_run_noted_is_told_without_boxes_in_boxes_and_zeros() -> None:
    detail = {"table": "prod.a.t", "changes": {"snapshots": 3, "refs": 0}, "batch": 0, "lineage": {"writer.id": "w"}}
    steps = [{"name": "expired", "detail": detail, "at": NOW.isoformat()}]
    run = {"run_id": "r", "job": "snapshot-expiry", "status": "done", "steps": steps}
    show_detail(Screen(stream := io.StringIO(), terminal=False), run)
    assert "expired         table=prod.a.t  snapshots=3  batch=0\n" in stream.getvalue()


def test_how_far_a_run_is_counts_all_roots_and_names_the_last() -> None:
    told = {"root": "s3://b/t/", "processed": 10, "of": 26, "at": NOW.isoformat()}
    run = {"run_id": "r", "job": "orphan-cleanup", "status": "stopped", "plan_id": "p", "progress": told}
    show_detail(Screen(stream := io.StringIO(), terminal=False), run)
    assert "reached     10 of 26 files, the last in s3://b/t/, 2026-11-15 06:00:04 UTC\n" in stream.getvalue()


def test_a_restore_is_a_restore(lakewarden: Any, warden: Any) -> None:
    warden.result = RunResult("run-1", "", "orphan-cleanup", RunStatus.DONE, {"restored": 26})
    assert "run-1   restore  done" in lakewarden("runs").out
    assert "RUN run-1   restore (orphan-cleanup)" in lakewarden("runs", "run-1").out
    assert lakewarden("restore", "run-1").out == "done  restored=26  run=run-1\n"


@pytest.mark.parametrize(("given", "wanted"), [((), None), (("--wait", "0"), 0.0), (("--wait", "600"), 600.0)])
def test_how_long_a_lease_is_waited_for(lakewarden: Any, warden: Any, given: tuple[str, ...], wanted: Any) -> None:
    for command in (("apply", "plan", "--yes"), ("run", "orphans"), ("restore", "run-1")):
        assert lakewarden(*command, *given).code == 0
    assert [call[1]["wait"] for call in warden.calls if "wait" in call[1]] == [wanted] * 3
    assert lakewarden("apply", "plan", "--yes", "--wait", "-1").code == 64


def test_restore_records_who(lakewarden: Any, warden: Any) -> None:
    assert lakewarden("restore", "run-1", "--operator", "ada").code == 0
    assert warden.calls[0][1]["actor"].operator == "ada"


def test_a_signal_within_a_finaliser_is_not_lost(lakewarden: Any, warden: Any, capsys: Any) -> None:
    """Python drops what is raised there."""

    class Last:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)

    def during(_: str) -> None:
        Last()
        for _ in range(1000):
            time.sleep(0.01)
        raise AssertionError("the signal was lost")

    warden.during = during
    began = time.monotonic()
    answer = lakewarden("plan", "orphans")
    assert (answer.code, time.monotonic() - began < 5) == (130, True)
    assert "Exception ignored" not in answer.err
    assert "Nothing was being changed." in answer.err


def test_what_is_to_be_typed_next_carries_the_configuration_and_refusals_come_once(
    lakewarden: Any, warden: Any
) -> None:
    held = (RefusedTable("prod.a.bad", "LW-TABLE-002", "manifest m1.avro is cut", "Restore m1.avro."),)
    warden.result = RunResult("r", "p", "orphan-cleanup", RunStatus.PLANNED, plan_path="state/p", refused=held)
    out = lakewarden("run", "orphans", "--config", "my.toml").out
    assert out.count("REFUSED prod.a.bad") == 1
    assert "lakewarden apply state/p --yes --config my.toml" in out
    warden.result = RunResult("r", "p", "orphan-cleanup", RunStatus.DONE, quarantined=Tally(1, 1))
    assert "lakewarden restore r --config my.toml" in lakewarden("apply", "p", "--yes", "--config", "my.toml").out


def test_failures_that_are_not_named_are_counted(lakewarden: Any, warden: Any) -> None:
    """A result names a hundred failures at most; a store may have refused every delete."""
    failed = tuple(FailedFile(f"s3://b/{place}", "AccessDenied", "no") for place in range(100))
    warden.result = RunResult("r", "p", "orphan-cleanup", RunStatus.PARTIAL, failed=failed, unnamed=4900)
    out = lakewarden("apply", "p", "--yes", "--config", "my.toml").out
    assert "and 4,980 more; the first 100: lakewarden runs r --config my.toml" in out
    assert "partial  nothing was changed  failed=5,000  run=r" in out
    document = lakewarden("apply", "p", "--yes", "--output", "json").json
    assert (len(document["failed"]), document["failures"]) == (100, 5000)
    assert RunResult.of(document).failures == 5000
    warden.result = RunResult("r", "p", "orphan-cleanup", RunStatus.PARTIAL, failed=failed)
    assert "and 80 more; all of them: lakewarden runs r\n" in lakewarden("apply", "p", "--yes").out
