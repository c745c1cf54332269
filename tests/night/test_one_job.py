"""One job as its policies say: one plan for all tables, of which those with `dry_run` are only looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from lakewarden.jobs.registry import JOBS
from lakewarden.model.actor import Actor
from lakewarden.model.errors import LakewardenError, Refusal, UnsafeGraceError, UsageError
from lakewarden.model.plan import Plan, PlannedRoot, TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.night.enabled import selected_states
from lakewarden.night.one_job import Asked, JobRun, looked_at, plan_job, refused_tables, run_job
from lakewarden.night.resume import resume_open_runs
from lakewarden.settings import load_settings
from lakewarden.steps.deployment import Deployment
from tests.support.configuration import write_toml
from tests.support.worlds import MakeWorld, Progress, World, at_batch, hand_plan

SPEC = JOBS[Job.ORPHAN_CLEANUP]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
DRY = {"lakewarden.orphan_cleanup.dry_run": "true"}


def asked(progress: Progress | None = None, **more: Any) -> Asked:
    return Asked(Actor("ada", "tester"), progress or (lambda *_: None), **more)


def run(world: World, progress: Progress | None = None, stopped: list[RunResult] | None = None) -> JobRun:
    deployment = world.warden._deployment
    heard = stopped.append if stopped is not None else None
    return run_job(deployment, SPEC, hand_plan(world), asked(progress), heard)


def resumed(world: World, **more: Any) -> list[RunResult]:
    deployment, wanted = world.warden._deployment, asked(**more)
    states = {state.identifier: state for state in selected_states(deployment, wanted)}
    return list(resume_open_runs(deployment, SPEC, wanted, states))


def give(world: World, table: str, properties: dict[str, str]) -> None:
    with world.table(table).transaction() as change:
        change.set_properties(properties)


@pytest.fixture
def mixed(world_of: MakeWorld) -> World:
    """Two tables with six orphans each, of which only the first may be changed."""
    world = world_of(dry_run=False, batch_size=2)
    give(world, "web.clicks", DRY)
    return world


def kill() -> None:
    raise KeyboardInterrupt


def test_one_plan_changes_what_may_be_changed_and_tells_of_the_rest(mixed: World) -> None:
    before = mixed.on_disk()
    plans = len(mixed.warden._deployment.ledger.plans.list())

    found = run(mixed)

    assert before - mixed.on_disk() == mixed.planted("sales.orders")
    assert found.result.status == "done"
    assert found.result.changed == {"files": 6}
    assert (found.result.looked_at, found.result.planned) == (("lake.web.clicks",), {"files": 6})
    assert len(mixed.warden._deployment.ledger.plans.list()) == plans + 1


def test_where_all_are_dry_the_plan_is_left_for_a_person(world: World) -> None:
    before = world.on_disk()
    found = run(world)
    assert (found.result.status, found.result.planned) == ("planned", {"files": 12})
    assert world.on_disk() == before
    assert world.apply(found.planned).deleted.files == 12


def test_a_dry_plan_of_which_the_rest_has_nothing_to_do_is_left_for_a_person(mixed: World) -> None:
    planned = hand_plan(mixed, mixed.planted("web.clicks"))
    found = run_job(mixed.warden._deployment, SPEC, planned, asked())
    assert (found.result.status, found.result.planned) == ("planned", {"files": 6})
    assert mixed.apply(planned).deleted.files == 6


def test_a_run_that_was_stopped_tells_what_it_had_done(mixed: World) -> None:
    heard: list[RunResult] = []
    with pytest.raises(KeyboardInterrupt):
        run(mixed, at_batch(4, kill), heard)
    assert [result.changed for result in heard] == [{"files": 4}]


def test_whoever_goes_on_with_a_run_leaves_the_same_tables_alone(mixed: World) -> None:
    """A person's apply of the same plan, after a crash, must not take what the run was begun without."""
    before = mixed.on_disk()
    with pytest.raises(KeyboardInterrupt):
        run(mixed, at_batch(2, kill))
    [open_run] = mixed.warden._deployment.ledger.runs.unfinished(SPEC.name)
    path = mixed.warden._deployment.ledger.plans.path(str(open_run.plan_id))
    assert path is not None

    with pytest.raises(UsageError, match=f"run {open_run.run_id} was begun with no brake lifted, and goes on so;"):
        mixed.apply(path, override_brakes="orphan-share")
    result = mixed.apply(path)

    assert (result.status, result.run_id, result.deleted.files) == ("done", open_run.run_id, 6)
    assert before - mixed.on_disk() == mixed.planted("sales.orders")


def test_the_next_night_goes_on_with_it(mixed: World) -> None:
    before = mixed.on_disk()
    with pytest.raises(KeyboardInterrupt):
        run(mixed, at_batch(2, kill))

    [result] = resumed(mixed, enabled_only=False)

    assert (result.status, result.deleted.files) == ("done", 6)
    assert before - mixed.on_disk() == mixed.planted("sales.orders")
    assert resumed(mixed) == []
    assert mixed.warden.audit_verify()["ok"]


def test_what_a_person_began_is_not_gone_on_with(mixed: World) -> None:
    with pytest.raises(KeyboardInterrupt):
        mixed.apply(hand_plan(mixed), progress=at_batch(2, kill))
    left = mixed.on_disk()
    assert resumed(mixed) == []
    assert mixed.on_disk() == left


@pytest.mark.parametrize(
    ("properties", "more"),
    [
        (DRY, {}),
        ({"lakewarden.orphan_cleanup.enabled": "false"}, {"enabled_only": True}),
        ({}, {"exclude": ("lake.sales.*",)}),
    ],
    ids=["dry by now", "disabled by now", "not selected"],
)
def test_a_run_that_its_policy_would_not_begin_today_is_left_open(
    mixed: World, properties: dict[str, str], more: dict[str, Any]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(mixed, at_batch(2, kill))
    give(mixed, "sales.orders", properties)
    left = mixed.on_disk()
    assert resumed(mixed, **more) == []
    assert mixed.on_disk() == left
    assert len(mixed.warden._deployment.ledger.runs.unfinished(SPEC.name)) == 1


def test_an_open_run_whose_plan_is_lost_stops_nobody(mixed: World) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(mixed, at_batch(2, kill))
    for path in (mixed.base / "state" / "plans").rglob("plan.json"):
        path.unlink()
    assert resumed(mixed) == []


def a_plan(*tables: TablePlan, roots: Sequence[PlannedRoot] = (), **more: Any) -> Plan:
    return Plan("orphan-cleanup", NOW, NOW, NOW, Actor("ada", "host-1"), tables, tuple(roots), (), **more).sealed()


def table(name: str, *, dry: bool = False) -> TablePlan:
    return TablePlan(name, "u", "iceberg", "m", changes={"files": 1}, policy={"dry_run": dry})


def test_a_table_that_shares_a_directory_with_a_dry_one_is_only_looked_at() -> None:
    shared = PlannedRoot("s3://b/shared/", ("a", "b"))
    plan = a_plan(table("a", dry=True), table("b"), table("c"), roots=[shared, PlannedRoot("s3://b/c/", ("c",))])
    assert [found.identifier for found in looked_at(plan)] == ["a", "b"]


def test_a_plan_that_leaves_tables_keeps_what_it_knew_of_them() -> None:
    plan = a_plan(table("a"), table("b"), brakes={"orphan-share": ("a", "b")})
    left = plan.leaving(["a"])
    assert [found.identifier for found in left.tables] == ["a", "b"]
    assert left.totals()["changes"] == {"files": 1}
    assert left.brakes == {"orphan-share": ("b",)}, "a brake that is lifted must not bring the table back"
    assert left.plan_id == plan.plan_id
    refused = replace(table("a"), refusal=Refusal("LW-TABLE-002", "m", "h"))
    assert a_plan(refused).leaving(["a"]).tables[0].refusal == refused.refusal


def test_an_error_of_a_resumed_run_is_raised(mixed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with the store or the lease is told; only a plan that is over makes room for a new one."""
    with pytest.raises(KeyboardInterrupt):
        run(mixed, at_batch(2, kill))
    mixed.warden.freeze(reason="incident")
    with pytest.raises(LakewardenError, match="froze"):
        resumed(mixed)


def test_a_margin_that_is_too_short_is_named_with_what_mends_it(tmp_path: Path) -> None:
    write_toml(tmp_path / "w.toml", {"physical_deletion": {"visibility_delay_hours": 0}})
    settings, nobody = load_settings(str(tmp_path / "w.toml"), {}), cast("Deployment", None)
    with pytest.raises(UnsafeGraceError, match="visibility_delay_hours") as refused:
        plan_job(nobody, settings, JOBS[Job.PHYSICAL_DELETION], asked())
    assert refused.value.hint.startswith("Raise visibility_delay_hours, or name each table to `lakewarden plan` with")


def test_a_brake_is_lifted_for_a_plan_that_no_run_has_used() -> None:
    pulled = Refusal("LW-BRAKE-004", "too many", "Look: lakewarden apply PLAN_DIR --yes --override-brake orphan-share")
    braked = replace(table("lake.a.t"), refusal=pulled)
    planned = PlanResult(a_plan(braked, brakes={"orphan-share": ("lake.a.t",)}), "file:///state/p 1/")
    [told] = refused_tables(planned)
    assert told.hint == "Look: lakewarden apply 'file:///state/p 1/' --yes --override-brake orphan-share"
    [told] = refused_tables(planned, used=True)
    assert told.hint == (
        "Look: lakewarden plan orphan-cleanup --select lake.a.t, "
        "then lakewarden apply PLAN_DIR --yes --override-brake orphan-share"
    )
