"""Handed over by the real chain: every kind of table that Spark writes, expired, copied, read again by Spark and PyIceberg.

The hot warehouse is moved away before anything is read: no address of the cold tables may lead back to it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import StaticTable

from lakewarden.model.run import RunStatus
from tests.jobs.snapshot_expiry.expiry_site import EXPIRY, Rows, Site, backdate, rows_at
from tests.jobs.tier_handoff.aged import HANDOFF, detail_of
from tests.support import oracle_tables
from tests.support.deployments import Seen
from tests.support.lakes import local_path
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "coldlake"
KINDS = (
    oracle_tables.v1_plain,
    oracle_tables.evolved,
    oracle_tables.position_deletes,
    oracle_tables.equality_deletes,
    oracle_tables.deletion_vectors,
    oracle_tables.upgraded,
    oracle_tables.statistics,
    oracle_tables.moved_paths,
)
NAMES = [kind.__name__ for kind in KINDS]
# PyIceberg cannot apply deletes by value.
NOT_BY_PYICEBERG = ("equality_deletes",)


@dataclass
class Handed:
    """The lake after the handover, its hot files out of reach, and what each snapshot showed before."""

    site: Site
    seen: Seen
    ids: dict[str, list[int]]
    rows: dict[str, dict[int, Rows]]
    row_ids: Rows

    def cold(self, name: str) -> str:
        return str(detail_of(self.seen, f"{CATALOG}.db.{name}")["cold"]).rstrip("/")


def collected(frame: DataFrame) -> Rows:
    return tuple(sorted((tuple(row) for row in frame.collect()), key=repr))


def by_spark(spark: SparkSession, table: str, ids: list[int]) -> dict[int, Rows]:
    """What Spark reads of each snapshot of a table, by name or by directory."""
    return {number: collected(spark.read.option("versionAsOf", number).format("iceberg").load(table)) for number in ids}


def row_ids_of(spark: SparkSession, table: str, number: int) -> Rows:
    return collected(spark.read.option("versionAsOf", number).format("iceberg").load(table).select("id", "_row_id"))


@pytest.fixture(scope="module")
def handed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handed]:
    base = tmp_path_factory.mktemp("handoff")
    properties = add_sqlite_catalog(spark, CATALOG, base / "catalog.db", f"file://{base}/warehouse")
    site = Site(base, {CATALOG: properties})
    site.sections["tier_handoff"] = {"dry_run": False, "destination": f"file://{base}/cold"}
    spark.sql(f"CREATE NAMESPACE {CATALOG}.db")
    catalog = site.catalog(CATALOG)
    ids: dict[str, list[int]] = {}
    rows: dict[str, dict[int, Rows]] = {}
    for kind in KINDS:
        name = kind.__name__
        kind(spark, f"{CATALOG}.db.{name}", base)
        numbers = backdate(catalog.load_table(f"db.{name}"), int(site.clock.now().timestamp() * 1000))
        ids[name] = numbers[:-1]
        rows[name] = by_spark(spark, f"{CATALOG}.db.{name}", ids[name])
    row_ids = row_ids_of(spark, f"{CATALOG}.db.deletion_vectors", ids["deletion_vectors"][-1])
    with site:
        assert site.run(EXPIRY).status is RunStatus.DONE
        seen = site.plan(HANDOFF)
        result = site.apply(seen)
        assert (result.status, result.failed) == (RunStatus.DONE, ())
        assert result.changed["snapshots"] == sum(len(numbers) for numbers in ids.values())
        for hot in ("warehouse", "elsewhere"):
            shutil.move(base / hot, base / f"gone-{hot}")
        yield Handed(site, seen, ids, rows, row_ids)


@pytest.mark.parametrize("name", NAMES)
def test_spark_reads_the_cold_table(handed: Handed, spark: SparkSession, name: str) -> None:
    assert handed.ids[name], "something expired"
    assert by_spark(spark, handed.cold(name), handed.ids[name]) == handed.rows[name]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_BY_PYICEBERG])
def test_pyiceberg_reads_the_cold_table(handed: Handed, name: str) -> None:
    cold = StaticTable.from_metadata(handed.cold(name))
    found = {number: rows_at(cold, number) for number in handed.ids[name]}
    assert {number: len(rows) for number, rows in found.items()} == {
        number: len(rows) for number, rows in handed.rows[name].items()
    }
    assert {number: [row[0] for row in rows] for number, rows in found.items()} == {
        number: [row[0] for row in rows] for number, rows in handed.rows[name].items()
    }


def test_no_file_of_a_cold_table_names_a_hot_one(handed: Handed) -> None:
    """Searched as bytes, in what is not compressed; readers above prove the rest. Only the origin is on record."""
    hot = f"{handed.site.base}/warehouse".encode()
    for path in (handed.site.base / "cold").rglob("*"):
        if path.is_file() and path.suffix in (".json", ".puffin") and "stats" not in path.name:
            assert hot not in re.sub(rb'"cold-copy.location": "[^"]*"', b"", path.read_bytes()), path


def test_rows_keep_their_ids(handed: Handed, spark: SparkSession) -> None:
    """Version 3: a row's id follows from what lists and manifests say of the first row."""
    name = "deletion_vectors"
    assert row_ids_of(spark, handed.cold(name), handed.ids[name][-1]) == handed.row_ids
    assert None not in {row[1] for row in handed.row_ids}


def test_statistics_come_along(handed: Handed) -> None:
    cold = StaticTable.from_metadata(handed.cold("statistics"))
    paths = [entry.statistics_path for entry in cold.metadata.statistics]
    assert paths
    assert all(path.startswith(handed.cold("statistics")) and local_path(path).exists() for path in paths)


def test_a_cold_table_can_be_registered_and_is_left_alone(handed: Handed, spark: SparkSession) -> None:
    """Beside the hot one, under its own uuid; every engine and Lakewarden itself keep their hands off."""
    directory = handed.cold("position_deletes")
    catalog: Any = handed.site.catalog(CATALOG)
    catalog.register_table("db.cold", f"{directory}/metadata/v1.metadata.json")
    try:
        assert spark.sql(f"SELECT count(*) FROM {CATALOG}.db.cold").collect()[0][0] > 0
        with pytest.raises(Exception, match="GC is disabled"):
            spark.sql(f"CALL {CATALOG}.system.expire_snapshots(table => 'db.cold', retain_last => 1)")
    finally:
        catalog.drop_table("db.cold")


@pytest.mark.parametrize("name", ["v1_plain", "position_deletes", "deletion_vectors", "equality_deletes", "statistics"])
def test_a_restored_table_is_read_and_written_by_spark(handed: Handed, spark: SparkSession, name: str) -> None:
    number = handed.ids[name][-1]
    handed.site.warden.restore_cold(str(number), f"{CATALOG}.db.back_{name}")
    back = f"{CATALOG}.db.back_{name}"
    assert collected(spark.table(back)) == handed.rows[name][number]
    spark.sql(f"DELETE FROM {back} WHERE id = 0")
    spark.sql(f"INSERT INTO {back} SELECT CAST(1000 AS BIGINT), 'a', TIMESTAMP '2024-01-01 00:00:00'")
    kept = [row[0] for row in handed.rows[name][number] if row[0] != 0]
    assert sorted(row[0] for row in spark.table(back).collect()) == sorted([*kept, 1000])
    assert not Path(handed.site.base / "warehouse" / "db" / name).exists()
