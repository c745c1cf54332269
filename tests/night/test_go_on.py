"""A job that is planned again in one command: until nothing is left, nothing changes, or its budget is used up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lakewarden.jobs.compaction import run as compaction_run
from lakewarden.jobs.compaction.spec import COMPACTION
from lakewarden.model.errors import FrozenError
from lakewarden.model.run import FailedFile, RunResult, RunStatus
from lakewarden.night import go_on as module
from lakewarden.night.go_on import go_on
from lakewarden.night.one_job import JobRun

ANY: Any = None


def result(number: int, groups: int, status: RunStatus = RunStatus.DONE, **more: Any) -> RunResult:
    return RunResult(f"run{number}", f"plan{number}", "compaction", status, {"groups": groups}, **more)


def table(changes: int, size: int, budget: int) -> Any:
    return SimpleNamespace(
        changes={"groups": changes}, policy={"max_bytes_per_run": budget}, detail={"compaction": {"bytes": size}}
    )


def played(
    monkeypatch: pytest.MonkeyPatch, first: RunResult, later: list[RunResult], may: bool = True, agreed: bool = True
) -> RunResult:
    left = list(later)
    monkeypatch.setattr(module, "plan_job", lambda *_: SimpleNamespace(plan="next"))
    monkeypatch.setattr(module, "run_job", lambda *_: JobRun(ANY, left.pop(0)))
    monkeypatch.setattr(compaction_run, "may_go_on", lambda *_: may and bool(left))
    return go_on(ANY, ANY, COMPACTION, ANY, JobRun(ANY, first), may_apply=lambda _: agreed).result


def test_until_the_next_plan_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, result(1, 3), [result(2, 2), result(3, 1)])
    assert (found.changed, found.run_id, found.runs) == ({"groups": 6}, "run3", ("run1", "run2", "run3"))
    assert found.as_json()["runs"] == ["run1", "run2", "run3"]


def test_a_run_that_changed_nothing_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, result(1, 3), [result(2, 0, kept={"groups": 2}), result(3, 5)])
    assert (found.changed, found.kept, found.runs) == ({"groups": 3}, {"groups": 2}, ("run1", "run2"))


def test_what_failed_in_one_run_is_told_once_and_makes_the_whole_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = (FailedFile("lake.t.a", "LW-TABLE-009", "altered"),)
    first = result(1, 3, RunStatus.PARTIAL, failed=bad)
    found = played(monkeypatch, first, [result(2, 2, RunStatus.PARTIAL, failed=bad)])
    assert (found.status, found.failed) == (RunStatus.PARTIAL, bad)


def test_a_plan_that_somebody_has_to_agree_to_is_not_run_because_another_was(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, result(1, 3), [result(2, 2)], agreed=False)
    assert (found.changed, found.run_id) == ({"groups": 3}, "run1")


def test_one_run_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    first = result(1, 3)
    assert played(monkeypatch, first, [], may=False) is first
    assert "runs" not in first.as_json()


def test_a_job_that_does_not_repeat_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "plan_job", lambda *_: pytest.fail("planned"))
    first = JobRun(ANY, result(1, 3))
    assert go_on(ANY, ANY, replace(COMPACTION, repeats=False), ANY, first).result is first.result


def test_a_freeze_between_two_plans_says_what_was_done_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def frozen(*_: Any) -> Any:
        raise FrozenError("somebody froze this deployment; nothing was done")

    monkeypatch.setattr(module, "plan_job", lambda *_: SimpleNamespace(plan="next"))
    monkeypatch.setattr(module, "run_job", frozen)
    monkeypatch.setattr(compaction_run, "may_go_on", lambda *_: True)
    with pytest.raises(FrozenError) as told:
        go_on(ANY, ANY, COMPACTION, ANY, JobRun(ANY, result(1, 3)))
    assert "run1" in f"{told.value.message} {told.value.hint}"


@pytest.mark.parametrize(
    ("tables", "may"),
    [
        ([], False),
        ([table(0, 0, 0)], False),
        ([table(1, 10**9, 0)], True),
        ([table(1, 50, 100)], True),
        ([table(1, 51, 100)], False),
        ([table(1, 30, 100), table(1, 30, 100)], False),
    ],
)
def test_the_budget_is_the_commands(tables: list[Any], may: bool) -> None:
    """Fifty bytes of a hundred were rewritten before."""
    step = SimpleNamespace(name=compaction_run.COMPACTED, detail={"bytes_removed": 50})
    runs = SimpleNamespace(steps=lambda run: [step] if run == "run1" else [])
    deployment: Any = SimpleNamespace(ledger=SimpleNamespace(runs=runs))
    plan: Any = SimpleNamespace(tables=tables)
    assert compaction_run.may_go_on(deployment, ["run1", "run2"], plan) is may
