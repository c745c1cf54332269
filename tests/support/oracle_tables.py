"""Real tables, one per thing Iceberg can keep in a table, written by Spark through Iceberg's own runtime.

Each builder takes a session and the full name of a table that does not exist yet.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

Builder = Callable[[SparkSession, str, Path], None]
MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read','write.update.mode'='merge-on-read','write.merge.mode'='merge-on-read'"
)


def _create(spark: SparkSession, table: str, *, by: str = "", version: int = 2, properties: str = "") -> None:
    partitioned = f"PARTITIONED BY ({by})" if by else ""
    more = f", {properties}" if properties else ""
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, part STRING, at TIMESTAMP) USING iceberg {partitioned} "
        # Without a shuffle each write costs half as much, and what the tables hold stays the same.
        f"TBLPROPERTIES ('format-version'='{version}', 'write.distribution-mode'='none', "
        f"'write.merge.distribution-mode'='none', 'write.delete.distribution-mode'='none'{more})"
    )


def _insert(spark: SparkSession, table: str, first: int, count: int = 4, parts: tuple[str, ...] = ("a", "b")) -> None:
    """Rows first … first + count - 1, spread over the parts, in one file a part."""
    names = ", ".join(f"'{part}'" for part in parts)
    spark.sql(
        f"INSERT INTO {table} SELECT id, element_at(array({names}), CAST(id % {len(parts)} AS INT) + 1), "
        f"TIMESTAMP '2024-01-01 00:00:00' + make_interval(0, 0, 0, CAST(id AS INT)) "
        f"FROM range({first}, {first + count}, 1, 1) ORDER BY 2"
    )


def _call(spark: SparkSession, table: str, procedure: str, *arguments: str) -> list[Any]:
    catalog, name = table.split(".", 1)
    given = ", ".join((f"table => '{name}'", *arguments))
    return spark.sql(f"CALL {catalog}.system.{procedure}({given})").collect()


def _snapshots(spark: SparkSession, table: str) -> list[int]:
    return [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()]


def _java_table(spark: SparkSession, table: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)


def v1_plain(spark: SparkSession, table: str, _: Path) -> None:
    """Format version 1: appends, then an overwrite of everything."""
    _create(spark, table, version=1)
    _insert(spark, table, 0)
    _insert(spark, table, 4)
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id < 6")


def v1_evolved(spark: SparkSession, table: str, _: Path) -> None:
    """Format version 1 with a partition field dropped: it stays behind as a void transform."""
    _create(spark, table, by="part", version=1)
    _insert(spark, table, 0)
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD part")
    _insert(spark, table, 4)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    _insert(spark, table, 8)


def evolved(spark: SparkSession, table: str, _: Path) -> None:
    """Three partition specs in one table, a renamed column, and manifests of each spec in one list."""
    _create(spark, table, by="part")
    _insert(spark, table, 0)
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD part WITH days(at)")
    _insert(spark, table, 4)
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN part TO section")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(1, section) AS first_letter")
    _insert(spark, table, 8)


def position_deletes(spark: SparkSession, table: str, _: Path) -> None:
    """Rows deleted, updated and merged on read: position delete files and their manifests."""
    _create(spark, table, by="part", properties=MERGE_ON_READ)
    _insert(spark, table, 0, 12)
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"UPDATE {table} SET at = TIMESTAMP '2025-01-01 00:00:00' WHERE id = 4")


def delete_equal(spark: SparkSession, table: str, ids: list[int]) -> None:
    """Delete rows by their `id`, the first column, in one file of equality deletes."""
    java = _java_table(spark, table)
    java.refresh()
    path = f"{java.location()}/data/{uuid.uuid4()}-equality-deletes.parquet"
    local = Path(path.removeprefix("file:").replace("///", "/"))
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array(ids, pa.int64())], schema=pa.schema([field])), local)
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    columns = gateway.new_array(jvm.int, 1)
    columns[0] = 1
    built = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(java.spec()).ofEqualityDeletes(columns)
    built = built.withPath(path).withFormat("parquet").withFileSizeInBytes(local.stat().st_size)
    java.newRowDelta().addDeletes(built.withRecordCount(len(ids)).build()).commit()


def equality_deletes(spark: SparkSession, table: str, scratch: Path) -> None:
    """Rows deleted by value, as streaming writers do; Spark has no statement for it, so Java's row delta commits it."""
    _create(spark, table)
    _insert(spark, table, 0, 6)
    delete_equal(spark, table, [2, 5])
    _insert(spark, table, 6)


def deletion_vectors(spark: SparkSession, table: str, _: Path) -> None:
    """Format version 3: deletion vectors, the second Puffin file replacing what the first one held."""
    _create(spark, table, by="part", version=3, properties=MERGE_ON_READ)
    _insert(spark, table, 0, 12)
    spark.sql(f"DELETE FROM {table} WHERE id IN (2, 3)")
    spark.sql(f"DELETE FROM {table} WHERE id = 6")


def upgraded(spark: SparkSession, table: str, _: Path) -> None:
    """Version 2 with position deletes, raised to version 3: both kinds of deletes in one history."""
    _create(spark, table, properties=MERGE_ON_READ)
    _insert(spark, table, 0, 8)
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')")
    _insert(spark, table, 8)
    spark.sql(f"DELETE FROM {table} WHERE id = 9")


def statistics(spark: SparkSession, table: str, _: Path) -> None:
    """Table and partition statistics of two snapshots."""
    _create(spark, table, by="part")
    _insert(spark, table, 0)
    _call(spark, table, "compute_table_stats")
    _call(spark, table, "compute_partition_stats")
    _insert(spark, table, 4)
    _call(spark, table, "compute_table_stats")
    _call(spark, table, "compute_partition_stats")


def branches_and_tags(spark: SparkSession, table: str, _: Path) -> None:
    """A branch with commits of its own, a tag on a snapshot that main overwrote, and a branch that was dropped."""
    _create(spark, table, by="part")
    _insert(spark, table, 0)
    spark.sql(f"ALTER TABLE {table} CREATE TAG `before`")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH work")
    _insert(spark, f"{table}.branch_work", 100)
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH gone")
    _insert(spark, f"{table}.branch_gone", 200)
    spark.sql(f"ALTER TABLE {table} DROP BRANCH gone")
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id = 0")


def staged(spark: SparkSession, table: str, _: Path) -> None:
    """A staged snapshot that no ref points at, waiting to be published."""
    _create(spark, table, properties="'write.wap.enabled'='true'")
    _insert(spark, table, 0)
    spark.conf.set("spark.wap.id", "audit-1")
    try:
        _insert(spark, table, 50)
    finally:
        spark.conf.unset("spark.wap.id")
    _insert(spark, table, 4)


def moved_paths(spark: SparkSession, table: str, scratch: Path) -> None:
    """Data and metadata written outside the table's location after a first write inside it."""
    _create(spark, table, by="part")
    _insert(spark, table, 0)
    elsewhere = f"file://{scratch}/elsewhere/{table.rsplit('.', 1)[-1]}"
    paths = f"'write.data.path'='{elsewhere}/d', 'write.metadata.path'='{elsewhere}/m'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({paths})")
    _insert(spark, table, 4)
    _insert(spark, table, 8)


def object_storage(spark: SparkSession, table: str, _: Path) -> None:
    """Hashed directories between the data path and the partition."""
    _create(spark, table, by="part", properties="'write.object-storage.enabled'='true'")
    _insert(spark, table, 0)
    _insert(spark, table, 4)


def gzip_metadata(spark: SparkSession, table: str, _: Path) -> None:
    """Compressed metadata.json, named *.gz.metadata.json."""
    _create(spark, table, properties="'write.metadata.compression-codec'='gzip'")
    _insert(spark, table, 0)
    _insert(spark, table, 4)


def expired(spark: SparkSession, table: str, _: Path) -> None:
    """Snapshots that were there and are gone, metadata.json files that still name them."""
    _create(spark, table, by="part", properties=MERGE_ON_READ)
    for first in (0, 4):
        _insert(spark, table, first)
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id < 6")
    _call(spark, table, "expire_snapshots", "older_than => TIMESTAMP '2100-01-01 00:00:00'", "retain_last => 1")


def rolled_back(spark: SparkSession, table: str, _: Path) -> None:
    """Main set back to an older snapshot; the newer ones stay without a ref."""
    _create(spark, table)
    for first in (0, 4, 8):
        _insert(spark, table, first)
    _call(spark, table, "rollback_to_snapshot", f"snapshot_id => {_snapshots(spark, table)[0]}")
    _insert(spark, table, 12)


def cherry_picked(spark: SparkSession, table: str, _: Path) -> None:
    """A staged snapshot published onto a main that moved on: the same files under a new snapshot."""
    staged(spark, table, _)
    waiting = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots WHERE summary['wap.id'] = 'audit-1'").collect()
    _call(spark, table, "cherrypick_snapshot", f"snapshot_id => {waiting[0][0]}")


def rotated_metadata(spark: SparkSession, table: str, _: Path) -> None:
    """More metadata.json files on disk than the metadata log names."""
    _create(spark, table, properties="'write.metadata.previous-versions-max'='2'")
    _insert(spark, table, 0)
    for value in range(5):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('round'='{value}')")


def odd_names(spark: SparkSession, table: str, _: Path) -> None:
    """Partition values that a path has to escape, and some that it does not."""
    _create(spark, table, by="part")
    _insert(spark, table, 0, 11, ("a b", "a%20b", "a+b", "ü", "日本", "x/y", "c#1", "100%", "=", "a:b", "*[1]?"))


def compacted(spark: SparkSession, table: str, _: Path) -> None:
    """Rewritten data files and manifests beside the ones they replace."""
    _create(spark, table)
    for first in (0, 4):
        _insert(spark, table, first)
    _call(spark, table, "rewrite_data_files", "options => map('rewrite-all', 'true')")
    _call(spark, table, "rewrite_manifests")


def replaced(spark: SparkSession, table: str, _: Path) -> None:
    """CREATE OR REPLACE: the old rows' snapshots stay in the log of the same table."""
    _create(spark, table, by="part")
    _insert(spark, table, 0)
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING iceberg AS SELECT id, 'x' AS other FROM range(3)")


def avro_files(spark: SparkSession, table: str, _: Path) -> None:
    """Data and delete files in Avro, whose names look like manifests'."""
    _create(spark, table, properties=f"'write.format.default'='avro', {MERGE_ON_READ}")
    _insert(spark, table, 0, 8)
    spark.sql(f"DELETE FROM {table} WHERE id = 2")


def never_written(spark: SparkSession, table: str, _: Path) -> None:
    """No snapshot at all."""
    _create(spark, table)


BUILDERS: tuple[Builder, ...] = (
    v1_plain,
    v1_evolved,
    evolved,
    position_deletes,
    equality_deletes,
    deletion_vectors,
    upgraded,
    statistics,
    branches_and_tags,
    staged,
    moved_paths,
    object_storage,
    gzip_metadata,
    expired,
    rolled_back,
    cherry_picked,
    rotated_metadata,
    odd_names,
    compacted,
    replaced,
    avro_files,
    never_written,
)
