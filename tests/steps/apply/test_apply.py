"""Plan and apply from end to end: exactly the orphans go, once, and the record says so."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from lakewarden.model.errors import PlanUsedError
from tests.support.worlds import MakeWorld, World

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_exactly_the_planned_orphans_go(world_of: MakeWorld, request: pytest.FixtureRequest, database: str) -> None:
    url = str(request.getfixturevalue("postgres_url")) if database == "postgresql" else database
    world = world_of(database=url, batch_size=5)
    before, rows = world.on_disk(), world.rows()
    plan = world.plan()
    planned = {row["uri"] for row in world.warden.plan_rows(plan.path, "orphan")}
    assert planned == {f"file://{path}" for path in world.planted()}
    assert world.on_disk() == before

    result = world.apply(plan)

    assert (result.status, result.exit_code) == ("done", 0)
    assert result.deleted.files == result.changed["files"] == len(world.planted())
    assert result.deleted.bytes == 64 * len(world.planted())
    assert before - world.on_disk() == world.planted()
    assert world.on_disk() <= before
    assert world.rows() == rows
    assert not world.lost()
    assert world.warden.audit_verify()["ok"]
    detail = world.warden.run_detail(result.run_id)
    assert detail["outcomes"] == {"deleted": {"files": 12, "bytes": 12 * 64}}
    assert (detail["open_batches"], detail["status"]) == ([], "done")

    again = world.plan()
    assert again.plan.totals()["changes"].get("files", 0) == 0
    assert not any(table.refusal for table in again.plan.tables)
    with pytest.raises(PlanUsedError):
        world.apply(plan)


def test_the_shapes_that_the_interface_promises(world: World) -> None:
    out = world.base / "chosen"
    plan = world.plan(out=str(out)).as_json()
    assert {"plan_id", "path", "job", "created_at", "expires_at", "cutoff", "actor", "tables", "totals"} <= plan.keys()
    assert plan["path"] == f"file://{out}/"
    assert {"identifier", "uuid", "format", "status", "refusal", "verdicts", "kinds", "changes"} <= plan["tables"][
        0
    ].keys()
    assert plan["totals"]["verdicts"]["orphan"] == {"files": 12, "bytes": 768}
    assert plan["totals"]["changes"] == {"files": 12}
    assert plan["totals"]["kinds"] == {
        "data": {"files": 4, "bytes": 256},
        "delete": {"files": 2, "bytes": 128},
        "manifest": {"files": 2, "bytes": 128},
        "manifest_list": {"files": 2, "bytes": 128},
        "statistics": {"files": 2, "bytes": 128},
    }
    for instant in ("created_at", "expires_at", "cutoff"):
        assert datetime.fromisoformat(plan[instant]).tzinfo is not None

    code, result, _ = world.cli("apply", str(out), "--yes", "--operator", "ann", "--ticket", "T-1")
    assert code == 0
    assert result.keys() >= {
        "run_id", "plan_id", "job", "status", "changed", "deleted", "hidden", "absent", "quarantined", "kept",
        "failed",
    }  # fmt: skip
    assert (result["plan_id"], result["job"], result["status"]) == (plan["plan_id"], "orphan-cleanup", "done")
    assert result["deleted"] == {"files": 12, "bytes": 768}
    assert (result["quarantined"], result["absent"], result["failed"]) == ({"files": 0, "bytes": 0}, 0, [])
    assert result["kept"]["live"] == plan["totals"]["verdicts"]["live"]["files"]

    some = sorted(world.planted())[0]
    code, who, _ = world.cli("audit", "who", str(some))
    assert code == 0
    assert [(e["outcome"], e["actor"]["operator"], e["actor"]["ticket"]) for e in who["entries"]] == [
        ("deleted", "ann", "T-1")
    ]


def test_selection_never_deletes_another_tables_files(world: World) -> None:
    plan = world.plan(select=["lake.sales.*"])
    assert [table.identifier for table in plan.plan.tables] == ["lake.sales.orders"]
    result = world.apply(plan)
    assert result.deleted.files == 6
    assert not any(path.exists() for path in world.planted("sales.orders"))
    assert all(path.exists() for path in world.planted("web.clicks"))


def test_selection_protects_files_that_an_unselected_table_added(world: World) -> None:
    """Table B lives elsewhere and holds a file of A's directory: `--select A` must not take it from B."""
    from tests.support.worlds import plant_rows

    path = plant_rows(world.table("sales.orders"))
    world.table("web.clicks").add_files([f"file://{path}"])
    result = world.apply(world.plan(select=["lake.sales.*"]))
    assert result.deleted.files == 6
    assert path.exists()
    assert not world.lost()


def test_an_empty_plan_is_applied_and_recorded(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", orphans=0)
    result = world.apply(world.plan())
    assert (result.status, result.deleted.files) == ("done", 0)
    assert world.warden.audit_verify()["ok"]


def test_run_stops_at_the_plan_until_dry_run_is_off(world_of: MakeWorld) -> None:
    dry = world_of("sales.orders")
    assert dry.warden.run("orphans").status == "planned"
    assert all(path.exists() for path in dry.planted())
    real = world_of("sales.orders", dry_run=False)
    assert real.warden.run("orphans").deleted.files == 6
    assert not any(path.exists() for path in real.planted())


def test_a_plan_lies_where_it_says(world: World) -> None:
    plan = world.plan()
    directory = Path(plan.path.removeprefix("file://"))
    document = json.loads((directory / "plan.json").read_text())
    assert document["plan_id"] == plan.plan.plan_id
    assert {part["name"] for part in document["parts"]} == {
        path.relative_to(directory).as_posix() for path in directory.rglob("*.parquet")
    }
