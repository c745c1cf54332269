"""Runs are closed once; a plan is used once, whoever asks first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from threading import Barrier

import pytest

from lakewarden.ledger.database import Ledger
from lakewarden.model.errors import NotFoundError, PlanUsedError, StateError
from tests.ledger.samples import ACTOR, NOON, plan, started


def test_a_run_comes_back_as_it_was_recorded(ledger: Ledger) -> None:
    started(ledger)
    ledger.runs.step("run-1", "observe", {"tables": 3})
    ledger.runs.step("run-1", "plan", "two orphans")
    ledger.runs.finish("run-1", "partial", {"deleted": {"files": 2}, "failed": []})
    run = ledger.runs.get("run-1")
    assert run is not None
    assert (run.job, run.plan_id, run.status, run.actor) == ("orphan-cleanup", "plan-1", "partial", ACTOR)
    assert run.result == {"deleted": {"files": 2}, "failed": []}
    assert run.finished_at is not None
    assert run.started_at.tzinfo is UTC
    assert run.started_at < run.finished_at
    steps = ledger.runs.steps("run-1")
    assert [(s.name, s.detail) for s in steps] == [("observe", {"tables": 3}), ("plan", "two orphans")]
    assert steps[0].at < steps[1].at


def test_a_run_is_started_and_finished_once(ledger: Ledger) -> None:
    started(ledger)
    with pytest.raises(StateError, match="exists"):
        started(ledger)
    ledger.runs.finish("run-1", "done", {})
    with pytest.raises(StateError, match="finished"):
        ledger.runs.finish("run-1", "failed", {})
    with pytest.raises(NotFoundError):
        ledger.runs.finish("run-9", "done", {})
    run = ledger.runs.get("run-1")
    assert run is not None
    assert run.status == "done"


def test_runs_are_listed_newest_first(ledger: Ledger) -> None:
    for name in ("a", "b", "c"):
        started(ledger, name)
    ledger.runs.start("d", "compaction", None, ACTOR)
    assert [run.run_id for run in ledger.runs.list()] == ["d", "c", "b", "a"]
    assert [run.run_id for run in ledger.runs.list(limit=2, job="orphan-cleanup")] == ["c", "b"]
    assert ledger.runs.get("none") is None


def test_the_unfinished_run_of_a_plan_is_found(ledger: Ledger) -> None:
    started(ledger, "a")
    ledger.runs.finish("a", "failed", {})
    assert ledger.runs.open_for_plan("plan-1") is None
    started(ledger, "b")
    found = ledger.runs.open_for_plan("plan-1")
    assert found is not None
    assert found.run_id == "b"


def test_a_saved_plan_keeps_its_use_when_saved_again(ledger: Ledger) -> None:
    made = plan()
    ledger.plans.save(made, "/plans/a")
    assert ledger.plans.claim(made.plan_id, "run-1") == "run-1"
    ledger.plans.save(made, "/plans/b")
    [saved] = ledger.plans.list()
    assert (saved.path, saved.used_by) == ("/plans/b", "run-1")
    assert (saved.created_at, saved.cutoff) == (made.created_at, made.cutoff)
    assert ledger.plans.header(made.plan_id) == made


def test_a_plan_is_resumed_while_its_run_is_open_and_refused_after(ledger: Ledger) -> None:
    assert ledger.plans.claim("plan-1", "run-1") == "run-1"
    assert ledger.plans.claim("plan-1", "run-2") == "run-1", "claimed, and died before its run was recorded"
    started(ledger, "run-1")
    assert ledger.plans.claim("plan-1", "run-2") == "run-1"
    ledger.runs.finish("run-1", "done", {})
    with pytest.raises(PlanUsedError, match="run-1"):
        ledger.plans.claim("plan-1", "run-2")


def test_a_plan_made_elsewhere_is_known_after_its_claim(ledger: Ledger) -> None:
    made = plan()
    ledger.plans.claim(made.plan_id, "run-1")
    assert ledger.plans.claim(made.plan_id, "run-2") == "run-1"
    assert (ledger.plans.header(made.plan_id), ledger.plans.list()) == (None, [])


def test_of_many_claims_at_once_one_wins(ledger: Ledger) -> None:
    ledger.plans.save(plan(), "/p")
    for plan_id in (plan().plan_id, "made-elsewhere"):
        gate = Barrier(8)

        def claim(number: int, plan_id: str = plan_id, gate: Barrier = gate) -> str:
            gate.wait()
            return ledger.plans.claim(plan_id, f"run-{number}")

        with ThreadPoolExecutor(8) as pool:
            winners = set(pool.map(claim, range(8)))
        assert winners == {ledger.plans.claim(plan_id, "late")}


def test_the_newest_plan_before_an_instant(ledger: Ledger) -> None:
    early, late = plan(made=NOON), plan(made=NOON + timedelta(hours=3))
    for made in (late, early, plan("compaction", NOON + timedelta(hours=1))):
        ledger.plans.save(made, "/p")

    def before(hours: float) -> str | None:
        found = ledger.plans.newest_before("orphan-cleanup", NOON + timedelta(hours=hours))
        return found.plan_id if found else None

    assert [before(-1), before(0), before(2), before(3)] == [None, early.plan_id, early.plan_id, late.plan_id]
    assert [saved.plan_id for saved in ledger.plans.list("orphan-cleanup")] == [late.plan_id, early.plan_id]
