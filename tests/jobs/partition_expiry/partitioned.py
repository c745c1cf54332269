"""Partitioned tables of every version and shape, written by Spark through Iceberg's own runtime, in one SQLite catalog."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Behind the end of the second day, in the first hour of the third.
CUTOFF = datetime(2024, 1, 3, 0, 30, tzinfo=UTC)
HOURS = "lakewarden.partition_expiry.expiration_hours"
MERGE = "'write.delete.mode'='merge-on-read'"

Build = Callable[["SparkSession", str], None]
Rows = tuple[tuple[Any, ...], ...]


def hours_since_cutoff() -> float:
    return (datetime.now(UTC) - CUTOFF).total_seconds() / 3600


def create(spark: SparkSession, table: str, by: str, version: int = 2, *, columns: str = "", more: str = "") -> None:
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, at TIMESTAMP{columns}) USING iceberg "
        f"{f'PARTITIONED BY ({by})' if by else ''} TBLPROPERTIES ('format-version'='{version}', "
        f"'write.distribution-mode'='none', '{HOURS}'='{hours_since_cutoff():.4f}'"
        f"{f', {MERGE}' if version > 1 else ''}{f', {more}' if more else ''})"
    )


def insert(
    spark: SparkSession,
    table: str,
    first: int,
    *extra: str,
    start: str = "01 00:10",
    minutes: int = 720,
    count: int = 10,
) -> None:
    """Rows first … first + count - 1, one each so many minutes of January 2024: by default two a day, five days."""
    more = "".join(f", {text}" for text in extra)
    spark.sql(
        f"INSERT INTO {table} SELECT {first} + id, at{more} FROM (SELECT id, TIMESTAMP '2024-01-{start}:00' + "
        f"make_interval(0, 0, 0, 0, 0, CAST(id * {minutes} AS INT)) AS at FROM range(0, {count}, 1, 1)) ORDER BY at"
    )


def days(spark: SparkSession, table: str) -> None:
    """Days, with position deletes in an old partition and in one that stays."""
    create(spark, table, "days(at)")
    insert(spark, table, 0)
    insert(spark, table, 100)
    spark.sql(f"DELETE FROM {table} WHERE id IN (100, 108)")


def hours_v3(spark: SparkSession, table: str) -> None:
    """Version 3: hours, row ids, and deletion vectors in an old partition and in one that stays."""
    create(spark, table, "hours(at)", 3)
    for first in (0, 100):
        insert(spark, table, first, start="02 18:10", minutes=30, count=24)
    spark.sql(f"DELETE FROM {table} WHERE id IN (100, 102, 123)")


def months_v1(spark: SparkSession, table: str) -> None:
    """Version 1: months. January is not over at the cut-off."""
    create(spark, table, "months(at)", 1)
    insert(spark, table, 0, minutes=24 * 60, count=40)
    spark.sql(
        f"INSERT INTO {table} VALUES (200, TIMESTAMP '2023-12-31 23:00:00'), (201, TIMESTAMP '2023-11-05 00:00:00')"
    )


def texts(spark: SparkSession, table: str) -> None:
    """Days as text, behind a column that tells no time."""
    formatter = "'lakewarden.partition_expiry.timestamp_formatter'='yyyyMMdd'"
    pattern = "'lakewarden.partition_expiry.timestamp_pattern'='$dt'"
    create(spark, table, "region, dt", columns=", region STRING, dt STRING", more=f"{formatter}, {pattern}")
    insert(spark, table, 0, "IF(id % 4 < 2, 'eu', 'us')", "date_format(at, 'yyyyMMdd')")
    spark.sql(f"INSERT INTO {table} VALUES (300, NULL, 'eu', 'soon'), (301, NULL, 'eu', NULL)")


def evolved(spark: SparkSession, table: str) -> None:
    """Without partitions, then by days, then by days and buckets; and a delete in each of the three."""
    create(spark, table, "")
    insert(spark, table, 0)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD days(at)")
    insert(spark, table, 100)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    insert(spark, table, 200)
    spark.sql(f"DELETE FROM {table} WHERE id IN (1, 101, 201, 109)")


def upgraded(spark: SparkSession, table: str) -> None:
    """By date, from version 1 over 2 to 3, with manifests that each of them wrote, and none since the last step."""
    create(spark, table, "d", 1, columns=", d DATE")
    insert(spark, table, 0, "CAST(at AS DATE)")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='2')")
    insert(spark, table, 100, "CAST(at AS DATE)")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')")


def upgraded_v2(spark: SparkSession, table: str) -> None:
    """From version 1 to 2, and nothing written since."""
    create(spark, table, "d", 1, columns=", d DATE")
    insert(spark, table, 0, "CAST(at AS DATE)")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='2')")


def ageless(spark: SparkSession, table: str) -> None:
    """Buckets only."""
    create(spark, table, "bucket(2, id)")
    insert(spark, table, 0)


TABLES: tuple[Build, ...] = (days, hours_v3, months_v1, texts, evolved, upgraded, upgraded_v2, ageless)


def rows_of(spark: SparkSession, table: str, columns: str = "id") -> Rows:
    return tuple(tuple(row) for row in spark.sql(f"SELECT {columns} FROM {table} ORDER BY id").collect())


def build(spark: SparkSession, base: Path, catalog: str) -> dict[str, str]:
    """All of TABLES in the namespace `t` of a new SQLite catalog; the properties for PyIceberg."""
    from tests.support.spark import add_sqlite_catalog

    properties = add_sqlite_catalog(spark, catalog, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {catalog}.t")
    for table in TABLES:
        table(spark, f"{catalog}.t.{table.__name__}")
    return properties
