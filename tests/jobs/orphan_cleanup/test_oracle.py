"""Our live set against Iceberg's own metadata tables, our orphans against its own procedure, on every kind of table.

Grace is nought here, so that only the current metadata protects: Iceberg's tables know no recent states.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tests.jobs.orphan_cleanup.site import Site
from tests.support.deployments import Seen
from tests.support.lakes import OracleLake, age_everything, build_oracle_lake, local_path, plant_orphans

pytestmark = pytest.mark.timeout(600)

NAME = "plan_oracle"
AT_ONCE = 4

# Where Iceberg's procedure is not right, by table: why, and what becomes of it.
DIFFERENCES = {
    "moved_paths": "it lists only the table's location, not the directories that write.*.path name: it misses orphans there",
}


class Oracle:
    """The lake, its tables, what was planted, and the one plan."""

    def __init__(self, spark: SparkSession, base: Path) -> None:
        self.spark = spark
        self.lake: OracleLake = build_oracle_lake(spark, base / "lake", NAME)
        catalog = self.lake.catalog()
        self.tables: dict[str, Table] = {name: catalog.load_table(name) for name in self.lake.tables}
        catalog.close()
        self.planted = {name: set(plant_orphans(table.location())) for name, table in self.tables.items()}
        elsewhere = base / "lake/elsewhere/moved_paths"
        self.planted[self.named("moved_paths")] |= set(
            plant_orphans(str(elsewhere), ("d/part=a/{}.parquet", "m/{}-m0.avro", "m/snap-1-{}.avro"))
        )
        age_everything(base / "lake")
        self.base = base

    def named(self, name: str) -> str:
        return next(full for full in self.lake.tables if full.endswith(f".{name}"))

    def directories(self, name: str) -> list[Path]:
        found = [local_path(self.tables[name].location())]
        return [*found, self.base / "lake/elsewhere/moved_paths"] if name.endswith(".moved_paths") else found

    def on_disk(self, name: str) -> set[Path]:
        return {path for root in self.directories(name) for path in root.rglob("*") if path.is_file()}

    def plan(self) -> Seen:
        site = Site(self.base)
        site.catalogs = {NAME: self.lake.properties}
        site.sections["orphan_cleanup"] = {"max_orphan_share": 1.0, "grace_period_hours": 0}
        uuids = [str(table.metadata.table_uuid) for table in self.tables.values()]
        try:
            return site.plan(unsafe_short_grace=uuids)
        finally:
            site.close()

    def needed(self, name: str) -> set[Path]:
        """Everything that Iceberg's metadata tables name, and the statistics that only the document names."""
        table = f"{NAME}.{name}"
        rows = self.spark.sql(
            f"SELECT file_path FROM {table}.all_data_files UNION SELECT file_path FROM {table}.all_delete_files "
            f"UNION SELECT path FROM {table}.all_manifests UNION SELECT manifest_list FROM {table}.snapshots "
            f"UNION SELECT file FROM {table}.metadata_log_entries"
        ).collect()
        metadata = self.tables[name].metadata
        statistics = [*metadata.statistics, *metadata.partition_statistics]
        return {local_path(row[0]) for row in rows} | {local_path(item.statistics_path) for item in statistics}

    def removable(self, name: str) -> set[Path]:
        """What Iceberg's own procedure would remove."""
        before = (datetime.now(UTC) - timedelta(days=2)).strftime("%Y-%m-%d %H:%M:%S")
        rows = self.spark.sql(
            f"CALL {NAME}.system.remove_orphan_files(table => '{name}', older_than => TIMESTAMP '{before}', dry_run => true)"
        ).collect()
        return {local_path(row[0]) for row in rows}


@pytest.fixture(scope="module")
def oracle(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(spark, tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="module")
def seen(oracle: Oracle) -> Seen:
    return oracle.plan()


def test_every_table_is_planned(oracle: Oracle, seen: Seen) -> None:
    assert len(seen.plan.tables) == len(oracle.tables) >= 12
    assert {table.identifier: table.refusal for table in seen.plan.tables if table.refusal} == {}


def test_our_live_set_is_the_union_of_icebergs_metadata_tables(oracle: Oracle, seen: Seen) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        needed = dict(zip(oracle.tables, pool.map(oracle.needed, oracle.tables), strict=True))
    for name in oracle.tables:
        judged = {local_path(row["uri"]) for row in seen.rows if row["table"] == f"{NAME}.{name}"}
        live = oracle.on_disk(name) - judged
        assert live == needed[name], name
        assert seen.table(f"{NAME}.{name}").verdicts["live"].files == len(live), name


def test_our_orphans_are_those_of_icebergs_procedure_where_it_is_right(oracle: Oracle, seen: Seen) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        theirs = dict(zip(oracle.tables, pool.map(oracle.removable, oracle.tables), strict=True))
    different = {}
    for name in oracle.tables:
        ours = seen.orphans(f"{NAME}.{name}")
        assert ours >= oracle.planted[name], name
        if ours != theirs[name]:
            different[name.rpartition(".")[2]] = (ours - theirs[name], theirs[name] - ours)
    assert set(different) == set(DIFFERENCES), json.dumps({k: [len(x) for x in v] for k, v in different.items()})
    missed, extra = different["moved_paths"]
    assert not extra
    assert missed == {
        path for path in seen.orphans(f"{NAME}.{oracle.named('moved_paths')}") if "/elsewhere/" in str(path)
    }


def test_old_metadata_files_that_the_log_has_dropped_are_orphans_once_they_are_old(oracle: Oracle, seen: Seen) -> None:
    name = oracle.named("rotated_metadata")
    kept = {local_path(entry.metadata_file) for entry in oracle.tables[name].metadata.metadata_log}
    dropped = {path for path in oracle.on_disk(name) if path.name.endswith(".metadata.json") and path not in kept} - {
        local_path(oracle.tables[name].metadata_location)
    }
    assert dropped
    assert dropped <= seen.orphans(f"{NAME}.{name}")
