"""A night around jobs that do as a test says: what runs, in which order, and what is told when something ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lakewarden.ledger.switches import Freeze
from lakewarden.model.actor import Actor
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import (
    Exit,
    FrozenError,
    InvariantViolationError,
    LeaseHeldError,
    Refusal,
    StoreUnavailableError,
    UsageError,
)
from lakewarden.model.night import JobStatus, NightResult
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.run import PlanResult, RunResult, RunStatus
from lakewarden.model.table import TableState
from lakewarden.night import night as module
from lakewarden.night.one_job import Asked, JobRun
from lakewarden.steps.job import JobSpec

NOW = datetime(2026, 11, 15, tzinfo=UTC)
ACTOR = Actor("ada", "host-1")
ALL_JOBS = [
    "snapshot-expiry", "partition-expiry", "manifest-rewrite", "tier-handoff", "physical-deletion", "orphan-cleanup",
]  # fmt: skip


@dataclass
class Lake:
    """Tables by name, what each job does when its turn comes, and what was asked of it."""

    enabled: dict[str, set[str]] = field(default_factory=lambda: {"lake.a.t": set(ALL_JOBS)})
    acts: dict[str, Callable[[], Any]] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    frozen: Freeze | None = None
    ran: list[str] = field(default_factory=list)
    asked: dict[str, Asked] = field(default_factory=dict)
    packages: list[Sequence[str]] = field(default_factory=list)

    def policy_for(self, job: str, identifier: str, *_: Any, **__: Any) -> Any:
        values = {"enabled": job in self.enabled[identifier], "dry_run": False}
        return SimpleNamespace(values=values, refusal=None)

    def states(self) -> tuple[TableState, ...]:
        return tuple(
            TableState(name, "iceberg", f"s3://b/{name}", f"s3://b/{name}/m.json", name, ()) for name in self.enabled
        )

    def plan(self, _: Any, __: Any, spec: JobSpec, asked: Asked, out: str | None = None) -> PlanResult:
        self.ran.append(str(spec.name))
        self.asked[spec.name] = asked
        asked.progress("load tables", 0, 4)
        tables = tuple(
            TablePlan(name, "u", "iceberg", "m", refusal=self.refusals.get(name), changes={"files": 1})
            for name in self.enabled
        )
        return PlanResult(Plan(spec.name, NOW, NOW, NOW, ACTOR, tables, (), ()).sealed(), out or f"plans/{spec.name}")

    def run(
        self, _: Any, spec: JobSpec, planned: PlanResult, __: Asked, stopped: Callable[[RunResult], None]
    ) -> JobRun:
        done = RunResult(f"run-{spec.name}", planned.plan.plan_id, spec.name, RunStatus.DONE, {"files": 1})
        act = self.acts.get(spec.name)
        found = act() if act is not None else None
        if isinstance(found, BaseException):
            stopped(done)
            raise found
        return JobRun(planned, found if isinstance(found, RunResult) else done)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = Lake()
    monkeypatch.setattr(module, "selected_states", lambda deployment, asked: lake.states())
    monkeypatch.setattr(module, "plan_job", lake.plan)
    monkeypatch.setattr(module, "run_job", lake.run)
    monkeypatch.setattr(module, "resume_open_runs", lambda *_: iter(()))
    return lake


def night_of(
    lake: Lake, *names: str, told: Callable[[NightResult], None] | None = None, progress: Any = None
) -> module.Night:
    deployment: Any = SimpleNamespace(
        clock=SystemClock(),
        new_id=lambda: "night-1",
        policy_for=lake.policy_for,
        warm_spark=lambda packages=(): lake.packages.append(packages),
        ledger=SimpleNamespace(switches=SimpleNamespace(frozen=lambda: lake.frozen)),
    )
    deployment.telling = lambda _: deployment
    deployment.format_of = lambda _: SimpleNamespace(relocator="there is one")
    asked = Asked(ACTOR, progress or (lambda *_: None))
    settings: Any = SimpleNamespace(job=lambda _: SimpleNamespace(dry_run=False))
    return module.Night(deployment, settings, names or ("all",), asked, told)


def statuses(night: NightResult) -> dict[str, str]:
    return {job.job: str(job.status) for job in night.jobs}


def test_all_enabled_jobs_run_in_the_order_of_a_day(lake: Lake) -> None:
    lake.enabled = {"lake.a.t": {"orphan-cleanup"}, "lake.a.u": {"snapshot-expiry", "orphan-cleanup"}}
    night = night_of(lake).run()
    assert lake.ran == ["snapshot-expiry", "orphan-cleanup"]
    assert all(asked.enabled_only for asked in lake.asked.values())
    assert (night.status, night.exit_code()) == (JobStatus.DONE, Exit.DONE)


def test_a_named_job_runs_whether_it_is_enabled_or_not(lake: Lake) -> None:
    lake.enabled = {"lake.a.t": set()}
    night_of(lake, "orphans", "snapshot-expiry").run()
    assert lake.ran == ["snapshot-expiry", "orphan-cleanup"]
    assert not any(asked.enabled_only for asked in lake.asked.values())


def test_where_nothing_is_enabled_nothing_is_done(lake: Lake) -> None:
    lake.enabled = {"lake.a.t": set()}
    night = night_of(lake).run()
    assert (lake.ran, night.jobs, night.exit_code()) == ([], (), Exit.DONE)


def test_a_wrong_name_stops_everything_before_anything_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "selected_states", lambda *_: pytest.fail("the lake was read"))
    with pytest.raises(UsageError, match="orphan"):
        night_of(lake, "snapshot-expiry", "orphan").run()


def test_a_failed_job_stops_no_other(lake: Lake) -> None:
    lake.acts = {
        "snapshot-expiry": lambda: StoreUnavailableError("no answer"),
        "manifest-rewrite": lambda: ValueError("a fault of ours"),
        "orphan-cleanup": lambda: LeaseHeldError("another worker"),
    }
    night = night_of(lake).run()
    assert lake.ran == ALL_JOBS
    by_name = {job.job: job for job in night.jobs}
    assert by_name["snapshot-expiry"].status is JobStatus.FAILED
    assert by_name["snapshot-expiry"].error == Refusal("LW-STORE-001", "no answer", StoreUnavailableError.hint)
    assert by_name["snapshot-expiry"].changed == {"files": 1}, "what it had done by then is told"
    assert by_name["manifest-rewrite"].error is not None
    assert by_name["manifest-rewrite"].error.message == "unexpected ValueError: a fault of ours"
    assert by_name["orphan-cleanup"].exit_code is Exit.LEASE_HELD
    assert night.exit_code() is Exit.FAILED


def test_deletion_waits_for_a_copy_that_failed_and_orphans_do_not(lake: Lake) -> None:
    lake.acts = {"tier-handoff": lambda: StoreUnavailableError("no answer")}
    night = night_of(lake).run()
    assert statuses(night)["physical-deletion"] == "skipped"
    assert "physical-deletion" not in lake.ran
    assert statuses(night)["orphan-cleanup"] == "done"


def test_deletion_leaves_a_table_alone_that_was_not_copied(lake: Lake) -> None:
    lake.enabled["lake.a.t[1]"] = set(ALL_JOBS)
    lake.refusals = {"lake.a.t[1]": Refusal("LW-TABLE-002", "cut", "restore it")}
    night = night_of(lake).run()
    assert lake.asked["physical-deletion"].exclude == ("lake.a.t[[]1]",)
    assert {job.job: job.left_alone for job in night.jobs if job.left_alone} == {"physical-deletion": ("lake.a.t[1]",)}
    assert lake.asked["orphan-cleanup"].exclude == ()


def test_deletion_is_skipped_where_no_table_is_left_for_it(lake: Lake) -> None:
    lake.refusals = {"lake.a.t": Refusal("LW-TABLE-002", "cut", "restore it")}
    night = night_of(lake).run()
    job = next(job for job in night.jobs if job.job == "physical-deletion")
    assert job.skipped_because == "every selected table waits for an earlier job, such as lake.a.t"
    assert "physical-deletion" not in lake.ran


def test_an_open_run_of_a_table_that_waits_is_not_gone_on_with(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.enabled["lake.a.u"] = set(ALL_JOBS)
    lake.refusals = {"lake.a.t": Refusal("LW-TABLE-002", "cut", "restore it")}
    seen: dict[str, list[str]] = {}

    def resume(_: Any, spec: JobSpec, __: Any, states: dict[str, TableState], *___: Any) -> Iterator[RunResult]:
        seen[spec.name] = sorted(states)
        return iter(())

    monkeypatch.setattr(module, "resume_open_runs", resume)
    night_of(lake).run()
    assert seen["physical-deletion"] == ["lake.a.u"]
    assert seen["orphan-cleanup"] == ["lake.a.t", "lake.a.u"]


def test_nothing_is_deleted_after_a_violation(lake: Lake) -> None:
    lake.acts = {"physical-deletion": lambda: InvariantViolationError("1 deleted file is needed now")}
    night = night_of(lake).run()
    assert statuses(night)["orphan-cleanup"] == "skipped"
    assert night.exit_code() is Exit.FAILED


def test_a_freeze_ends_the_night(lake: Lake) -> None:
    def freeze() -> FrozenError:
        lake.frozen = Freeze("ana", NOW, "incident")
        return FrozenError("ana froze this deployment")

    lake.acts = {"partition-expiry": freeze}
    night = night_of(lake).run()
    assert lake.ran == ["snapshot-expiry", "partition-expiry"]
    assert statuses(night) == {
        "snapshot-expiry": "done",
        "partition-expiry": "refused",
        **dict.fromkeys(ALL_JOBS[2:], "skipped"),
    }
    assert night.jobs[-1].skipped_because == "ana froze this deployment on 2026-11-15 00:00 UTC: incident"
    assert night.exit_code() is Exit.REFUSED


def test_a_signal_ends_the_night_and_every_job_is_told(lake: Lake) -> None:
    lake.acts = {"tier-handoff": lambda: KeyboardInterrupt()}
    nights: list[NightResult] = []
    with pytest.raises(KeyboardInterrupt):
        night_of(lake, told=nights.append).run()
    told = nights[-1].jobs
    assert [str(job.status) for job in told] == ["done", "done", "done", "stopped", "skipped", "skipped"]
    assert told[3].changed == {"files": 1}
    assert told[3].plan_path == "plans/tier-handoff"
    assert told[4].result is None
    assert told[4].skipped_because == "the night was stopped before its turn"


def test_progress_names_the_job(lake: Lake) -> None:
    said: list[str] = []
    night_of(lake, "orphans", "snapshot-expiry", progress=lambda stage, *_: said.append(stage)).run()
    assert said == ["snapshot-expiry: load tables", "orphan-cleanup: load tables"]


def test_jars_are_asked_for_before_the_first_job_and_only_where_they_are_needed(lake: Lake) -> None:
    night_of(lake, "orphans", "snapshot-expiry").run()
    assert lake.packages == [()], "Spark starts at once"
    night_of(lake).run()
    assert len(lake.packages) == 2
    assert any("iceberg-spark-runtime" in name for name in lake.packages[1])


def test_a_planned_night_applies_nothing(lake: Lake) -> None:
    lake.acts = dict.fromkeys(ALL_JOBS, lambda: pytest.fail("it was applied"))
    seen: list[PlanResult] = []
    night = night_of(lake).plan("out", seen.append)
    assert [planned.path for planned in seen] == [f"out/{job}" for job in ALL_JOBS]
    assert {job.status for job in night.jobs} == {JobStatus.PLANNED}
    assert all(job.planned == {"files": 1} for job in night.jobs)
