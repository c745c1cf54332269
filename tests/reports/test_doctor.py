"""The doctor's report: each finding on a fleet that has it, and nothing on one that has none. No Spark is started."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.ledger.bulk import INSTANT
from lakewarden.ledger.leases import Leases
from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Tally
from lakewarden.model.roots import Claim, group_roots
from lakewarden.model.table import ManifestList, Ref, TableState
from lakewarden.reports.doctor import _nested
from lakewarden.reports.overview import broken_refs
from lakewarden.steps.apply import removal
from lakewarden.steps.observe.fleet import Fleet
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
    assert "never cleaned" in capsys.readouterr().out
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


def test_ten_thousand_tables_are_looked_through_once() -> None:
    """Not each directory with each other one: that takes minutes, and this a fraction of a second."""
    claims = [Claim(f"file:///lake/t{i:05}/", f"lake.a.t{i:05}") for i in range(10_000)]
    claims += [Claim(f"file:///lake/t{i:05}/inner/", f"lake.a.inner{i:05}") for i in range(0, 10_000, 100)]
    fleet = Fleet((), tuple(claims), tuple(group_roots(claims)))
    began = time.process_time()
    found = list(_nested(fleet))
    assert time.process_time() - began < 3
    assert len(found) == 100
    assert found[1] == {
        "prefix": "file:///lake/t00100/", "tables": ["lake.a.t00100"], "inside": "file:///lake/t00100/inner/",
        "table": "lake.a.inner00100",
    }  # fmt: skip


def test_a_freeze_what_waits_and_the_health_of_tables_are_told(world: World) -> None:
    world.warden.freeze(reason="a migration")
    ledger = world.warden._deployment.ledger
    now = world.warden._deployment.clock.now()
    columns = {
        "uri": ["s3://b/1", "s3://b/2"],
        "table": ["lake.sales.orders"] * 2,
        "size": [5, 7],
        "kind": ["data"] * 2,
    }
    rows = pa.table({**columns, "modified": pa.nulls(2, INSTANT), "etag": pa.nulls(2, pa.string())})
    ledger.pending.add_rows("run-1", now, rows.to_batches())
    report = doctor(world)
    assert report["frozen"]["reason"] == "a migration"
    assert report["pending"] == {"files": 2, "bytes": 12, "tables": 1, "oldest": now.isoformat()}
    assert report["health"] == {"refused": 0, "attention": 2, "healthy": 0}
    [group] = report["attention"]
    assert (group["code"], group["count"]) == ("never planned", 2)


def test_a_tag_that_outlives_its_snapshot_is_no_broken_ref() -> None:
    state = TableState(
        "lake.a.t", "paimon", "u", "file:///t#1", "file:///t", ("file:///t",), snapshot_ids=frozenset({7}),
        refs=(Ref("main", 7, "branch"), Ref("old", 3, "tag"), Ref("empty", 0, "branch"), Ref("lost", 5, "tag")),
        manifest_lists=(ManifestList("file:///t/manifest/l3", snapshot_id=3),),
    )  # fmt: skip
    assert [ref.name for ref in broken_refs(state)] == ["lost"]
