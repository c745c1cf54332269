"""Edited, incomplete, used, expired and foreign plans; and every exit code that apply can end with."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewarden.model.errors import (
    FrozenError,
    LeaseHeldError,
    NotFoundError,
    NothingAppliedError,
    PlanEditedError,
    PlanError,
    PlanExpiredError,
    PlanOutdatedError,
    PlanUsedError,
    Refusal,
    UsageError,
)
from lakewarden.model.plan import Plan
from tests.support.worlds import MakeWorld, World, hand_plan


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    return world_of("sales.orders")


def directory(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def untouched(world: World) -> bool:
    return all(path.exists() for path in world.planted()) and not world.warden.runs()


def test_an_edited_header(world: World) -> None:
    plan = hand_plan(world)
    header = directory(plan.path) / "plan.json"
    document = json.loads(header.read_text())
    document["expires_at"] = "2999-01-01T00:00:00+00:00"
    header.write_text(json.dumps(document))
    with pytest.raises(PlanEditedError):
        world.apply(plan.path)
    assert untouched(world)
    assert world.exit_code("apply", plan.path, "--yes") == 5


def test_a_plan_that_another_command_finishes_while_this_one_waits_is_used(world: World, monkeypatch: Any) -> None:
    plan, leases = hand_plan(world), world.warden._deployment.leases
    acquire = type(leases).acquire

    def late(self: Any, key: str, *args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        world.apply(plan.path)
        return acquire(self, key, *args, **more)

    monkeypatch.setattr(type(leases), "acquire", late)
    with pytest.raises(PlanUsedError, match="was finished meanwhile by run") as refused:
        world.apply(plan.path)
    assert "A plan is used once" in refused.value.hint


def test_an_edited_header_with_a_fitting_id_is_nobodys_plan(world: World) -> None:
    """Whoever can write the directory can also compute the id; only the ledger knows which plans were made."""
    plan = hand_plan(world)
    header = directory(plan.path) / "plan.json"
    document = json.loads(header.read_text())
    document["expires_at"] = "2999-01-01T00:00:00+00:00"
    del document["plan_id"]
    forged = Plan.loads(json.dumps(document | {"plan_id": _seal(document)}).encode())
    header.write_bytes(forged.dumps())
    with pytest.raises(PlanError, match="not made by this deployment"):
        world.apply(plan.path)
    assert untouched(world)


def _seal(document: dict[str, object]) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(document, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:32]


def test_an_edited_part(world: World) -> None:
    plan = hand_plan(world)
    part = directory(plan.path) / plan.plan.parts[0].name
    rows = pq.read_table(part)
    live = next(path for path in world.needed() if path.suffix == ".parquet")
    pq.write_table(rows.set_column(0, "uri", [[f"file://{live}"] * rows.num_rows]), part)
    with pytest.raises(PlanEditedError):
        world.apply(plan)
    assert untouched(world)
    assert not world.lost()
    assert world.exit_code("apply", plan.path, "--yes") == 5


def test_a_missing_part(world: World) -> None:
    plan = hand_plan(world)
    (directory(plan.path) / plan.plan.parts[0].name).unlink()
    with pytest.raises(PlanEditedError, match="missing"):
        world.apply(plan)
    assert untouched(world)


def test_a_used_plan(world: World) -> None:
    plan = hand_plan(world)
    world.apply(plan)
    with pytest.raises(PlanUsedError):
        world.apply(plan)
    assert world.exit_code("apply", plan.path, "--yes") == 5


def test_a_copy_of_a_used_plan(world: World) -> None:
    plan = hand_plan(world)
    world.apply(plan)
    shutil.copytree(directory(plan.path), world.base / "copy")
    with pytest.raises(PlanUsedError):
        world.apply(str(world.base / "copy"))


def test_an_expired_plan(world: World) -> None:
    then = datetime.now(UTC) - timedelta(hours=25)
    plan = hand_plan(world, created_at=then, expires_at=then + timedelta(hours=24))
    with pytest.raises(PlanExpiredError):
        world.apply(plan)
    assert untouched(world)
    assert world.exit_code("apply", plan.path, "--yes") == 5


def test_a_plan_of_another_deployment(world_of: MakeWorld) -> None:
    """Another deployment's leases, writers and used plans are not visible here."""
    mine, other = world_of("sales.orders"), world_of("sales.orders")
    plan = hand_plan(mine)
    with pytest.raises(PlanError, match="not made by this deployment"):
        other.apply(plan)
    assert untouched(mine)
    assert other.exit_code("apply", plan.path, "--yes") == 5


def test_a_plan_that_read_a_catalog_which_is_not_configured_any_more(world: World) -> None:
    """Its tables may have begun to need the files, and nobody would notice."""
    plan = hand_plan(world)
    world.close()
    world.config.write_text(world.config.read_text().replace("[catalogs.lake", "[catalogs.other"))
    with pytest.raises(PlanOutdatedError, match=r"lake\.sales\.orders"):
        world.apply(plan)
    assert all(path.exists() for path in world.planted())


def test_a_root_that_another_deployment_owns(world_of: MakeWorld) -> None:
    world = world_of("sales.orders")
    plan = hand_plan(world)
    root = directory(plan.plan.roots[0].prefix)
    (root.parent / ".lakewarden").mkdir()
    (root.parent / ".lakewarden" / f"owner-{root.name}.json").write_text('{"deployment": "somebody", "worker": "else"}')
    with pytest.raises(NothingAppliedError, match="somebody"):
        world.apply(plan)
    assert all(path.exists() for path in world.planted())


def test_a_plan_whose_tables_are_all_refused(world: World) -> None:
    plan = hand_plan(world)
    refused = [_refused(table) for table in plan.plan.tables]
    plan = hand_plan(world, tables=tuple(refused))
    with pytest.raises(NothingAppliedError):
        world.apply(plan)
    assert untouched(world)
    assert world.exit_code("apply", plan.path, "--yes") == 4


def _refused(table: object, code: str = "LW-TABLE-004") -> object:
    from dataclasses import replace

    return replace(table, refusal=Refusal(code, "no", "none"), changes={})  # type: ignore[type-var]


def test_a_refused_tables_rows_are_never_obeyed(world_of: MakeWorld) -> None:
    world = world_of()
    plan = hand_plan(world)
    one, other = plan.plan.tables
    plan = hand_plan(world, tables=(_refused(one), other))
    assert world.apply(plan).deleted.files == 6
    assert all(path.exists() for path in world.planted("sales.orders"))


def test_only_the_named_brake_lifts_a_refusal(world_of: MakeWorld) -> None:
    world = world_of()
    one, other = hand_plan(world).plan.tables
    braked = {"tables": (_refused(one, "LW-BRAKE-004"), other), "brakes": {"orphan-share": (one.identifier,)}}
    plan = hand_plan(world, **braked)
    assert world.apply(plan, override_brakes=["live-missing"]).deleted.files == 6
    assert all(path.exists() for path in world.planted("sales.orders"))
    plan = hand_plan(world, world.orphans["sales.orders"], **braked)
    assert world.apply(plan, override_brakes=["orphan-share"]).deleted.files == 6
    assert not any(path.exists() for path in world.planted())


def test_an_unknown_brake_and_a_missing_plan(world: World) -> None:
    plan = hand_plan(world)
    with pytest.raises(UsageError, match="override_brakes must be names of brakes"):
        world.apply(plan, override_brakes=["speed"])
    with pytest.raises(NotFoundError):
        world.apply(str(world.base / "nowhere"))
    assert untouched(world)
    assert world.exit_code("apply", plan.path, "--yes", "--override-brake", "speed") == 64
    assert world.exit_code("apply", str(world.base / "nowhere"), "--yes") == 10
    assert world.exit_code("apply", plan.path) == 64


def test_a_frozen_deployment(world: World) -> None:
    plan = hand_plan(world)
    world.warden.freeze(reason="audit")
    with pytest.raises(FrozenError, match="audit"):
        world.apply(plan)
    assert untouched(world)
    assert world.exit_code("apply", plan.path, "--yes") == 4
    world.warden.unfreeze()
    assert world.apply(plan).deleted.files == 6


def test_a_root_that_a_killed_worker_of_another_machine_held(world: World) -> None:
    """Nobody renews its lease: the next command watches the lease run out, and goes on."""
    plan = hand_plan(world)
    deployment = world.warden._deployment
    from lakewarden.ledger.leases import Leases

    killed = Leases(deployment.stores, f"{deployment.state}leases/", deployment.clock, "killed")
    killed.acquire(f"root/{plan.plan.roots[0].prefix}", 2)
    assert world.exit_code("apply", plan.path, "--yes", "--wait", "0") == 11
    assert world.exit_code("apply", plan.path, "--yes") == 0
    assert not any(path.exists() for path in world.planted())


def test_a_root_that_another_worker_holds(world: World) -> None:
    plan = hand_plan(world)
    deployment = world.warden._deployment
    from lakewarden.ledger.leases import Leases

    others = Leases(deployment.stores, f"{deployment.state}leases/", deployment.clock, "another")
    with others.acquire(f"root/{plan.plan.roots[0].prefix}", 3):
        with pytest.raises(LeaseHeldError, match="another"):
            world.apply(plan)
        assert world.exit_code("apply", plan.path, "--yes") == 11
        assert all(path.exists() for path in world.planted())
    # Waiting is enough: the plan is not spent by a worker that was in the way.
    assert world.apply(plan).deleted.files == 6
    assert world.warden.audit_verify()["ok"]


def test_a_plan_that_was_chosen_is_not_another_one_that_lies_in_its_place_by_now(world: World) -> None:
    """A scheduler that plans into the same directory, while somebody reads what they are asked."""
    chosen, later = hand_plan(world, [min(world.planted())]), hand_plan(world)
    place = directory(chosen.path)
    shutil.rmtree(place)
    shutil.copytree(directory(later.path), place)
    with pytest.raises(
        PlanEditedError, match=f"{chosen.plan.plan_id} was chosen, and plan {later.plan.plan_id} lies in"
    ):
        world.apply(chosen)
    assert untouched(world)
