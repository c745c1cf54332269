"""The lakes the other tests stand on hold what their names say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tests.support.lakes import (
    OracleLake,
    age_everything,
    append,
    build_oracle_lake,
    contents,
    local_path,
    plant_orphans,
    small_lake,
)
from tests.support.spark import add_sqlite_catalog
from tests.support.storage import Seaweed


@pytest.fixture(scope="module")
def oracle(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> OracleLake:
    return build_oracle_lake(spark, tmp_path_factory.mktemp("oracle-lake"), "oracle_check")


def column(spark: SparkSession, query: str) -> set[object]:
    return {row[0] for row in spark.sql(query).collect()}


def unreferenced(table: Table) -> set[int]:
    """Snapshots that no ref reaches through its ancestors."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots}
    reached: set[int] = set()
    for ref in table.metadata.refs.values():
        at: int | None = ref.snapshot_id
        while at is not None:
            reached.add(at)
            at = parents.get(at)
    return parents.keys() - reached


def test_the_oracle_lake_holds_every_kind_of_file(spark: SparkSession, oracle: OracleLake) -> None:
    lake = oracle.name
    assert column(spark, f"SELECT DISTINCT content FROM {lake}.deep.position_deletes.all_files") == {0, 1}
    assert column(spark, f"SELECT DISTINCT content FROM {lake}.plain.equality_deletes.all_files") == {0, 2}
    assert "PUFFIN" in column(spark, f"SELECT file_format FROM {lake}.deep.deletion_vectors.all_delete_files")
    assert column(spark, f"SELECT file_format FROM {lake}.plain.upgraded.all_delete_files") == {"PARQUET", "PUFFIN"}
    assert column(spark, f"SELECT file_format FROM {lake}.plain.avro_files.all_files") == {"AVRO"}
    assert column(spark, f"SELECT DISTINCT spec_id FROM {lake}.plain.evolved.all_files") == {0, 1, 2}
    assert column(spark, f"SELECT name FROM {lake}.plain.branches_and_tags.refs") == {"main", "before", "work"}
    assert spark.sql(f"SELECT count(*) FROM {lake}.plain.equality_deletes").first() == (8,)


def test_the_oracle_lake_holds_every_kind_of_metadata(oracle: OracleLake) -> None:
    catalog = oracle.catalog()
    tables = {name.rpartition(".")[2]: catalog.load_table(name) for name in oracle.tables}
    catalog.close()
    assert {table.format_version for table in tables.values()} == {1, 2, 3}
    assert len(tables["statistics"].metadata.statistics) == 2
    assert len(tables["statistics"].metadata.partition_statistics) == 2
    assert tables["gzip_metadata"].metadata_location.endswith(".gz.metadata.json")
    assert "/elsewhere/" in tables["moved_paths"].metadata_location
    for name, without_a_ref in (("staged", 1), ("rolled_back", 2), ("cherry_picked", 1)):
        assert len(unreferenced(tables[name])) == without_a_ref, name
    assert len(tables["expired"].metadata.snapshots) == 1
    on_disk = list((local_path(tables["rotated_metadata"].location()) / "metadata").glob("*.metadata.json"))
    assert len(on_disk) > len(tables["rotated_metadata"].metadata.metadata_log) + 1
    names = {path.name for path in (local_path(tables["odd_names"].location()) / "data").iterdir()}
    assert {"part=a+b", "part=a%2520b", "part=%E6%97%A5%E6%9C%AC"} <= names


def test_spark_and_pyiceberg_share_a_catalog_on_s3(spark: SparkSession, seaweed: Seaweed, tmp_path: Path) -> None:
    warehouse = f"s3://{seaweed.bucket()}/warehouse"
    properties = add_sqlite_catalog(spark, "shared_s3", tmp_path / "catalog.db", warehouse, seaweed)
    spark.sql("CREATE NAMESPACE shared_s3.db")
    spark.sql("CREATE TABLE shared_s3.db.t USING iceberg AS SELECT 1L AS id, 'a' AS part")
    catalog = SqlCatalog("shared_s3", **properties)
    append(catalog.load_table("db.t"), 2)
    assert spark.sql("SELECT count(*) FROM shared_s3.db.t").first() == (5,)
    assert [row["id"] for row in contents(catalog.load_table("db.t"))] == [1, 2, 3, 4, 5]
    catalog.close()


def test_a_small_lake_is_read_back_and_orphans_are_as_old_as_asked(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    catalog = lake.catalog()
    table = catalog.load_table(lake.tables[0])
    catalog.close()
    assert [row["id"] for row in contents(table)] == list(range(8))
    planted = plant_orphans(table.location())
    assert all(path.is_file() for path in planted)
    age_everything(tmp_path)
    assert max(path.stat().st_mtime for path in tmp_path.rglob("*.parquet")) < planted[0].stat().st_mtime + 60
