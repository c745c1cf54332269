"""explain FILE: live through which ref, snapshot and manifest; or what a plan says of it; or who deleted it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.model.errors import NotFoundError, UsageError
from tests.support.lakes import append, local_path, plant_orphans
from tests.support.worlds import World, hand_plan, plant_rows


def explain(world: World, uri: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(json.dumps(world.warden.explain(str(uri))))
    return answer


def test_a_data_file_and_every_way_to_it(world: World) -> None:
    table = world.table("sales.orders")
    first, second = table.metadata.snapshots
    table.manage_snapshots().create_tag(first.snapshot_id, "old").commit()
    [manifest] = first.manifests(table.io)
    file = manifest.fetch_manifest_entry(table.io)[0].data_file.file_path
    answer = explain(world, file)
    assert (answer["uri"], answer["status"], answer["exists"], answer["ways"]) == (file, "live", True, 2)
    ways = {way["snapshot_id"]: way for way in answer["live_through"]}
    assert sorted(ways[first.snapshot_id]["refs"]) == ["main", "old"]
    assert ways[second.snapshot_id]["refs"] == ["main"]
    assert {way["manifest"] for way in ways.values()} == {manifest.manifest_path}
    assert {way["table"] for way in ways.values()} == {"lake.sales.orders"}


def test_a_snapshot_that_no_ref_reaches_is_live_all_the_same(world: World) -> None:
    table = world.table("sales.orders")
    first, second = table.metadata.snapshots
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    only = {m.manifest_path for m in second.manifests(table.io)} - {m.manifest_path for m in first.manifests(table.io)}
    answer = explain(world, only.pop())
    assert (answer["status"], answer["live_through"][0]["refs"]) == ("live", [])


def test_manifests_lists_and_metadata(world: World) -> None:
    table = world.table("sales.orders")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    lists = explain(world, snapshot.manifest_list)
    assert [(w["by"], w["snapshot_id"]) for w in lists["live_through"]] == [("manifest list", snapshot.snapshot_id)]
    manifest = snapshot.manifests(table.io)[0].manifest_path
    assert {w["manifest"] for w in explain(world, manifest)["live_through"]} == {manifest}
    assert explain(world, table.metadata_location)["live_through"][0]["by"] == "metadata"


def test_a_file_that_another_table_added(world: World) -> None:
    path = plant_rows(world.table("sales.orders"))
    world.table("web.clicks").add_files([f"file://{path}"])
    answer = explain(world, path)
    assert (answer["status"], answer["live_through"][0]["table"]) == ("live", "lake.web.clicks")


def test_an_orphan_then_its_deletion(world: World) -> None:
    path = sorted(world.planted())[0]
    first = hand_plan(world)
    plan = hand_plan(world)
    answer = explain(world, path)
    assert (answer["status"], answer["newest_plan"]["plan_id"]) == ("orphan", plan.plan.plan_id)
    assert answer["newest_plan"]["reason"] == "by hand"
    assert answer["first_listed_at"] == first.plan.created_at.isoformat()
    result = world.apply(plan)
    gone = explain(world, path)
    assert (gone["status"], gone["exists"]) == ("deleted", False)
    assert [(entry["run_id"], entry["outcome"]) for entry in gone["journal"]] == [(result.run_id, "deleted")]
    assert gone["journal"][0]["actor"]["worker"] == "tester"


def test_a_file_that_no_plan_has_seen_and_one_that_nobody_knows(world: World) -> None:
    [unseen] = plant_orphans(world.table("sales.orders").location(), ["data/new-{}.parquet"])
    assert explain(world, unseen)["status"] == "unseen"
    with pytest.raises(NotFoundError):
        explain(world, "/nowhere/at/all.parquet")
    for text in ("no address", "data/a.parquet", "file:///", "s3://bucket", "/a/directory/"):
        with pytest.raises(UsageError, match="is not a file's address"):
            explain(world, text)
        with pytest.raises(UsageError, match="is not a file's address"):
            world.warden.audit_who(text)
    assert world.exit_code("explain", "/nowhere/at/all.parquet") == 10


def test_a_table_that_cannot_be_read_is_named(world: World) -> None:
    table = world.table("web.clicks")
    append(table, 50)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = local_path(snapshot.manifests(table.io)[0].manifest_path)
    manifest.write_bytes(manifest.read_bytes()[:100])
    hand_plan(world)
    answer = explain(world, sorted(world.planted("sales.orders"))[0])
    assert answer["status"] == "orphan"
    assert list(answer["unread_tables"]) == ["lake.web.clicks"]


def test_a_released_file_is_pending_since_when_until_when_and_by_which_run(world: World) -> None:
    path = sorted(world.planted("sales.orders"))[0]
    hand_plan(world)
    ledger, since = world.warden._deployment.ledger, datetime(2026, 11, 1, 4, tzinfo=UTC)
    row = {
        "uri": f"file://{path}",
        "table": "lake.sales.orders",
        "size": 1,
        "modified": since,
        "etag": "",
        "kind": "data",
    }
    ledger.runs.start("run-7", "snapshot-expiry", None, world.warden.actor())
    ledger.pending.add_rows("run-7", since, [pa.RecordBatch.from_pylist([row])])
    answer = explain(world, path)
    assert answer["status"] == "pending"
    assert answer["released"] == {
        "since": "2026-11-01T04:00:00+00:00",
        "until": "2026-11-02T04:00:00+00:00",
        "run_id": "run-7",
        "table": "lake.sales.orders",
    }


def test_a_table_with_gc_disabled_has_its_own_code_and_needs_its_files(world: World) -> None:
    table = world.table("web.clicks")
    table.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    [manifest, *_] = table.current_snapshot().manifests(table.io)
    live = explain(world, manifest.fetch_manifest_entry(table.io)[0].data_file.file_path)
    assert (live["status"], live["live_through"][0]["table"]) == ("live", "lake.web.clicks")
    assert [(found["table"], found["code"]) for found in live["left_alone"] if "table" in found] == [
        ("lake.web.clicks", "LW-TABLE-004")
    ]
    other = explain(world, sorted(world.planted("web.clicks"))[0])
    assert (other["status"], "unread_tables" in other) == ("unseen", False)
    assert other["left_alone"][0]["code"] == "LW-TABLE-004"
