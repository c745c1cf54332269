"""Writers at work during plan and apply lose nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.steps.apply.writers import clean_while_writing
from tests.support.lakes import Lake, age_everything, append, plant_orphans
from tests.support.worlds import MakeWorld, World, at_batch, hand_plan, write_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.filterwarnings("ignore:Delete operation did not match")]


def test_a_writer_that_never_rests(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", batch_size=1)
    commits, deleted = clean_while_writing(world, seconds=20)
    assert commits >= 10
    assert deleted >= 6


def test_commits_during_the_listing_refuse_nothing(world_of: MakeWorld) -> None:
    """Two commits between loading and listing: the first one's metadata file is history, not a fork."""
    world = world_of("sales.orders")

    def commit(stage: str, done: int, total: int) -> None:
        if stage == "list and compare":
            append(world.table(), 100)
            append(world.table(), 200)

    plan = world.plan(progress=commit)
    assert [table.refusal for table in plan.plan.tables] == [None]
    assert world.apply(plan).deleted.files == 6


@pytest.mark.parametrize("moment", ["before apply", "between batches"])
def test_a_staged_snapshot_that_is_cherry_picked(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    """Written under a WAP id and published later by Spark's own procedure: an old snapshot comes back as a new one."""
    from tests.support.spark import add_sqlite_catalog

    name = f"cherry{abs(hash(str(tmp_path))) % 10**8}"
    base = tmp_path / "lake"
    base.mkdir()
    properties = add_sqlite_catalog(spark, name, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {name}.sales")
    table = f"{name}.sales.orders"
    spark.sql(f"CREATE TABLE {table} (id bigint, part string) USING iceberg TBLPROPERTIES ('write.wap.enabled'='true')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    lake = Lake(name, properties, ("sales.orders",), tmp_path)
    location = lake.catalog().load_table("sales.orders").location()
    orphans = {"sales.orders": plant_orphans(location)}
    age_everything(base / "warehouse")
    world = World(tmp_path, lake, write_config(tmp_path, name, properties, batch_size=1), orphans)

    def stage_and_pick() -> None:
        spark.conf.set("spark.wap.id", "w1")
        try:
            spark.sql(f"INSERT INTO {table} VALUES (3, 'c')")
        finally:
            spark.conf.unset("spark.wap.id")
        staged = world.table("sales.orders").metadata.snapshots[-1].snapshot_id
        spark.sql(f"CALL {name}.system.cherrypick_snapshot('sales.orders', {staged})")

    plan = hand_plan(world)
    if moment == "before apply":
        stage_and_pick()
        result = world.apply(plan)
    else:
        result = world.apply(plan, progress=at_batch(1, stage_and_pick))
    assert (result.status, result.deleted.files) == ("done", 6)
    assert not world.lost()
    assert sorted(row["id"] for row in world.rows()["sales.orders"]) == [1, 2, 3]
    world.close()
