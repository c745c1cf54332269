"""A real REST catalog over tables on local disk: exactly the orphans go, whatever the server does meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.rest import RestCatalog as RestClient
from pyiceberg.table import Table

from lakewarden.model.errors import CatalogUnavailableError
from lakewarden.model.plan import Plan
from tests.formats.iceberg.catalogs.conftest import RestWorld, metadata_file
from tests.formats.iceberg.catalogs.fronts import front, overriding
from tests.support.lakes import MONTH_SECONDS, age_everything, plant_orphans
from tests.support.worlds import at_batch, hand_plan, plant_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS, DEEP = "sales.orders", "sales.eu.orders"


def refusals(plan: Plan) -> dict[str, str]:
    """The code that each refused table was refused with."""
    return {table.identifier: table.refusal.code for table in plan.tables if table.refusal}


def files(world: RestWorld) -> set[Path]:
    """What lies in the lake, without the checksums that Hadoop's local file system writes beside each file."""
    return {path for path in world.on_disk() if path.suffix != ".crc"}


def test_the_whole_way(rest_world: RestWorld, spark: SparkSession) -> None:
    """Tables by PyIceberg, and one by Spark with deletes, through one server."""
    world = rest_world
    name = f"rest{world.lake.properties['uri'].rpartition(':')[2]}"
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": world.lake.properties["uri"],
    }.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    spark.sql(
        f"CREATE TABLE {name}.sales.by_spark (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part) "
        "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"INSERT INTO {name}.sales.by_spark VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    spark.sql(f"DELETE FROM {name}.sales.by_spark WHERE id = 1")
    planted = {*world.planted(), *plant_orphans(world.table("sales.by_spark").location())}
    age_everything(world.base / "lake" / "warehouse")
    before, rows = files(world), world.rows()

    plan = world.plan()
    assert refusals(plan.plan) == {}
    assert plan.plan.totals()["changes"] == {"files": 18}
    assert files(world) == before
    result = world.apply(plan)

    assert (result.status, result.deleted.files) == ("done", 18)
    assert before - files(world) == planted
    assert world.rows() == rows
    assert not world.lost()
    assert [row.id for row in spark.sql(f"SELECT id FROM {name}.sales.by_spark ORDER BY id").collect()] == [2, 3]
    assert world.warden.audit_verify()["ok"]


@pytest.mark.parametrize("moment", ["before apply", "between batches"])
def test_a_commit_through_the_server_shrinks_the_plan(rest_world: RestWorld, moment: str) -> None:
    world = rest_world
    late = plant_rows(world.table(ORDERS), "zzz/late-{}.parquet")
    plan = hand_plan(world, [*world.planted(), late])

    def commit() -> None:
        world.table(DEEP).add_files([f"file://{late}"])

    if moment == "before apply":
        commit()
        result = world.apply(plan)
    else:
        result = world.apply(plan, progress=at_batch(1, commit))
    assert late.exists()
    assert (result.status, result.deleted.files, result.kept["revalidated"]) == ("done", 12, 1)
    assert not world.lost()
    assert world.rows()[DEEP][-1]["id"] == 1001


def test_a_server_that_is_down_changes_nothing(rest_world: RestWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world = rest_world
    plan = hand_plan(world)
    before = world.on_disk()
    world.stop_server()
    with pytest.raises(CatalogUnavailableError, match="catalog lake could not be read"):
        world.plan()
    with pytest.raises(CatalogUnavailableError):
        world.apply(plan)
    assert world.exit_code("plan", "orphans") == 1
    assert "LW-CATALOG-001" in capsys.readouterr().out
    assert world.on_disk() == before
    outcomes = [world.warden.run_detail(run["run_id"])["outcomes"] for run in world.warden.runs()]
    assert not any(outcomes)


def test_a_server_that_goes_down_between_batches_ends_the_run_there(rest_world: RestWorld) -> None:
    world = rest_world
    plan = hand_plan(world)
    with pytest.raises(CatalogUnavailableError):
        world.apply(plan, progress=at_batch(1, world.stop_server))
    run = world.warden.run_detail(world.warden.runs()[0]["run_id"])
    assert run["outcomes"]["deleted"]["files"] == 1
    assert run["open_batches"] == []
    assert sum(path.exists() for path in world.planted()) == 11


def roll_back(world: RestWorld) -> None:
    """Leave sales.orders with a snapshot that no ref names any more."""
    table = world.table(ORDERS)
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    for path in (world.base / "lake").rglob("*.metadata.json"):
        document = json.loads(path.read_text())
        document["last-updated-ms"] -= MONTH_SECONDS * 1000
        for entry in [*document.get("metadata-log", ()), *document["snapshots"], *document.get("snapshot-log", ())]:
            entry["timestamp-ms"] -= MONTH_SECONDS * 1000
        path.write_text(json.dumps(document))
        # It no longer fits, and Hadoop's file system would call the file corrupt.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    age_everything(world.base / "lake" / "warehouse")


@pytest.mark.usefixtures("spark")
def test_a_partial_view_hides_nothing(rest_world: RestWorld) -> None:
    """Asked for by the configuration it is refused; ordered by the server, the metadata is still read whole."""
    roll_back(rest_world)
    asked = rest_world.deploy(**{"snapshot-loading-mode": "refs"})
    assert len(asked.table(ORDERS).metadata.snapshots) == 1
    assert len(rest_world.table(ORDERS).metadata.snapshots) == 2
    assert refusals(asked.plan().plan) == {f"lake.{name}": "LW-TABLE-005" for name in (ORDERS, DEEP)}
    asked.close()

    with front(rest_world.lake.properties["uri"], overriding({"snapshot-loading-mode": "refs"})) as uri:
        ordered = rest_world.deploy(uri=uri)
        assert len(ordered.table(ORDERS).metadata.snapshots) == 1
        result = ordered.apply(ordered.plan())
        ordered.close()
    assert (result.status, result.deleted.files) == ("done", 12)
    assert not any(path.exists() for path in rest_world.planted())
    assert not rest_world.lost()


def test_a_table_that_the_server_cannot_load_is_not_taken_for_dropped(rest_world: RestWorld) -> None:
    """For lost metadata the server answers 404, as for a dropped table, which would protect nothing any more."""
    world = rest_world
    late = plant_rows(world.table(ORDERS), "zzz/mine-{}.parquet")
    plan = hand_plan(world, [*world.planted(), late])
    world.table(DEEP).add_files([f"file://{late}"])
    metadata_file(world, DEEP).unlink()
    before = world.on_disk()
    for step in (world.plan, lambda: world.apply(plan)):
        with pytest.raises(CatalogUnavailableError, match=r"lists sales\.eu\.orders but does not load it"):
            step()
    assert world.on_disk() == before


def test_a_dropped_table_stops_nothing(rest_world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is dropped just when it has been listed."""
    world = rest_world
    plan = hand_plan(world, world.planted(ORDERS))
    load = RestClient.load_table

    def drop_first(self: RestClient, name: tuple[str, ...]) -> Table:
        if ".".join(name) == DEEP and self.table_exists(name):
            self.drop_table(name)
        return load(self, name)

    monkeypatch.setattr(RestClient, "load_table", drop_first)
    assert world.apply(plan).deleted.files == 6
    assert not any(path.exists() for path in world.planted(ORDERS))
