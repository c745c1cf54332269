"""The doctor's report: each finding on a fleet that has it, and nothing on one that has none. No Spark is started."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.ledger.leases import Leases
from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Tally
from lakewarden.steps.apply import removal
from tests.steps.apply.test_crash import Crash, crashing
from tests.support.lakes import local_path, write_table
from tests.support.worlds import MakeWorld, World, hand_plan

FINDINGS = (
    "refused", "doubts", "shared_roots", "nested_roots", "forks", "unknown_uuids", "missing_live_files", "broken_refs",
    "stale_leases", "open_intents", "forgotten_runs",
)  # fmt: skip


def doctor(world: World) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(json.dumps(world.warden.doctor()))
    return report


def test_a_healthy_fleet(world: World) -> None:
    report = doctor(world)
    assert {name: report[name] for name in FINDINGS} == {name: [] for name in FINDINGS}
    assert (report["tables"], report["newest_plan"]) == (2, None)
    assert report["never_maintained"] == ["lake.sales.orders", "lake.web.clicks"]
    plan = hand_plan(world)
    report = doctor(world)
    assert report["reclaimable"] == {"files": 12, "bytes": 768}
    assert report["newest_plan"]["plan_id"] == plan.plan.plan_id
    world.apply(plan)
    report = doctor(world)
    assert (report["reclaimable"], report["never_maintained"]) == ({"files": 0, "bytes": 0}, [])


def test_it_needs_no_jvm_and_the_command_prints_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = world.cli("doctor")
    assert (code, report["tables"]) == (0, 2)
    from lakewarden.cli.main import main

    assert main(["doctor", "--config", str(world.config)]) == 0
    assert "never maintained" in capsys.readouterr().out
    if "pyspark" not in sys.modules:
        doctor(world)
        assert "pyspark" not in sys.modules


def test_shared_and_nested_roots(world: World) -> None:
    location = world.table("sales.orders").location()
    write_table(world.catalog(), "sales.twin", location=location)
    write_table(world.catalog(), "sales.inner", location=f"{location}/data/inner")
    report = doctor(world)
    assert report["shared_roots"] == [{"prefix": f"{location}/", "tables": ["lake.sales.orders", "lake.sales.twin"]}]
    [nested] = report["nested_roots"]
    assert (nested["table"], nested["inside"]) == ("lake.sales.inner", f"{location}/data/inner/")


def test_forks_and_refused_tables(world: World) -> None:
    table = world.table("sales.orders")
    old = table.metadata_location
    with table.transaction() as change:
        change.set_properties({"note": "moved on"})
    world.catalog().register_table("sales.fork", old)
    with world.table("web.clicks").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    report = doctor(world)
    assert {entry["table"] for entry in report["forks"]} == {"lake.sales.fork", "lake.sales.orders"}
    assert {entry["table"]: entry["code"] for entry in report["refused"]}["lake.web.clicks"] == "LW-TABLE-004"


def test_what_the_newest_plan_saw(world: World) -> None:
    one, other = hand_plan(world).plan.tables
    foreign = replace(one, refusal=Refusal("LW-ROOT-002", "belongs to table 123", "abandon"), changes={})
    missing = replace(
        other, refusal=Refusal("LW-BRAKE-002", "2 needed files", "look"), changes={}, verdicts={"orphan": Tally(1, 1)}
    )
    hand_plan(world, tables=(foreign, missing))
    report = doctor(world)
    assert [entry["table"] for entry in report["unknown_uuids"]] == ["lake.sales.orders"]
    assert [entry["table"] for entry in report["missing_live_files"]] == ["lake.web.clicks"]
    assert report["reclaimable"] == {"files": 0, "bytes": 0}
    hand_plan(world)
    assert doctor(world)["refused"] == []


def test_broken_refs(world: World) -> None:
    path = local_path(world.table("sales.orders").metadata_location)
    document = json.loads(path.read_text())
    document["refs"]["lost"] = {"snapshot-id": 42, "type": "tag"}
    path.write_text(json.dumps(document))
    assert doctor(world)["broken_refs"] == [{"table": "lake.sales.orders", "ref": "lost", "snapshot_id": 42}]


def test_stale_leases_and_open_intents(world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of("sales.orders")
    plan = hand_plan(world)
    with monkeypatch.context() as patched:
        crashing(patched, removal, "delete", after=True)
        with pytest.raises(Crash):
            world.apply(plan)
    deployment = world.warden._deployment
    Leases(deployment.stores, f"{deployment.state}leases/", deployment.clock, "dead").acquire("root/somewhere", 5)
    assert doctor(world)["stale_leases"] == []
    now = type(deployment.clock).now
    monkeypatch.setattr(type(deployment.clock), "now", lambda self: now(self) + timedelta(seconds=6))
    report = doctor(world)
    assert [(entry["key"], entry["holder"]) for entry in report["stale_leases"]] == [("root/somewhere", "dead")]
    [intent] = report["open_intents"]
    assert (intent["batch"], intent["files"], intent["plan_id"]) == (0, 6, plan.plan.plan_id)


def test_an_empty_world_has_a_report(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", orphans=0)
    world.catalog().drop_table("sales.orders")
    assert doctor(world)["tables"] == 0
