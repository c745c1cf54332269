"""New files as their owners want them, read by Spark: every type, filters, orders of rows, and what Iceberg's writers write."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FixedType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from lakewarden.model.run import RunResult
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of
from tests.support.deployments import Seen
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB, LAKE = "compaction", "wanted"
# Tables that Iceberg's own writers write, and how.
BY_ENGINE = {
    "avro": ("'write.format.default'='avro'", "binpack"),
    "orc": ("'write.format.default'='orc'", "binpack"),
    "paged": ("'write.parquet.page-row-limit'='2', 'format-version'='3'", "binpack"),
    "zordered": (
        "'lakewarden.compaction.strategy'='zorder', 'lakewarden.compaction.zorder_columns'='id,part'",
        "zorder:id,part",
    ),
    "bucketed": ("'format-version'='2'", "sort"),
}
UUIDS = [uuid.UUID(int=n * 0x15555555555555555555555555555555) for n in range(9)]


@dataclass(frozen=True)
class Wanted:
    site: Site
    spark: SparkSession
    plan: Seen
    result: RunResult
    before: dict[str, list[Any]]

    def document(self, name: str) -> dict[str, Any]:
        return document_of(self.site.catalog(LAKE).load_table(f"t.{name}"))


def rows(spark: SparkSession, name: str) -> list[Any]:
    more = ", _row_id, _last_updated_sequence_number" if name == "paged" else ""
    spark.sql(f"REFRESH TABLE {LAKE}.t.{name}")
    return sorted((tuple(row) for row in spark.sql(f"SELECT *{more} FROM {LAKE}.t.{name}").collect()), key=repr)


def make_typed(site: Site) -> None:
    """Three files with every type that Spark reads, and a filter over the uuids."""
    point = StructType(NestedField(10, "x", DoubleType()))
    schema = Schema(
        NestedField(1, "u", UUIDType()),
        NestedField(2, "f", FixedType(20)),
        NestedField(3, "d", DecimalType(38, 4)),
        NestedField(4, "m", DecimalType(9, 2)),
        NestedField(5, "x", DoubleType()),
        NestedField(6, "l", ListType(12, point, element_required=False)),
        NestedField(7, "k", MapType(13, StringType(), 14, LongType(), value_required=False)),
        NestedField(8, "s", StringType()),
    )
    table = site.catalog(LAKE).create_table("t.typed", schema, properties={"format-version": "2"})
    for start in (0, 3, 6):
        numbers = range(start, start + 3)
        values = [
            {
                "f": bytes([n]) * 20,
                "d": Decimal(n) / 8,
                "m": Decimal(n) / 4,
                "x": [0.0, -0.0, float("nan")][n % 3],
                "l": [None, [], [{"x": None}, None]][n % 3],
                "k": [None, [], [("a", n)]][n % 3],
                "s": f"\U0010ffff{'x' * 5000}{n}" if n else None,
            }
            for n in numbers
        ]
        fields = table.schema().as_arrow()
        uuids = pa.array([UUIDS[n].bytes for n in numbers], pa.binary(16)).cast(fields.field("u").type)
        others = pa.Table.from_pylist(values, schema=fields.remove(0))
        table.append(others.add_column(0, fields.field("u"), uuids))
    # Last: PyIceberg itself writes no filters, and warns.
    with table.transaction() as change:
        change.set_properties({"write.parquet.bloom-filter-enabled.column.u": "true"})


@pytest.fixture(scope="module")
def wanted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wanted]:
    base = tmp_path_factory.mktemp("wanted")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    for name, (said, _) in BY_ENGINE.items():
        spark.sql(
            f"CREATE TABLE {LAKE}.t.{name} (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part) "
            f"TBLPROPERTIES ({said}, 'write.delete.mode'='merge-on-read')"
        )
        if name == "bucketed":
            spark.sql(f"ALTER TABLE {LAKE}.t.{name} WRITE LOCALLY ORDERED BY bucket(4, id)")
        for start in (0, 4, 8):
            spark.sql(f"INSERT INTO {LAKE}.t.{name} SELECT id, 'p' FROM range({start}, {start + 4}, 1, 1)")
        spark.sql(f"DELETE FROM {LAKE}.t.{name} WHERE id IN (1, 6)")
    with Site(base, {LAKE: properties}) as site:
        make_typed(site)
        site.sections["compaction"] = {"min_input_files": 2}
        before = {name: rows(spark, name) for name in (*BY_ENGINE, "typed")}
        plan = site.plan(JOB)
        yield Wanted(site, spark, plan, site.apply(plan), before)


def test_the_run_is_done(wanted: Wanted) -> None:
    assert wanted.result.status == "done", wanted.result.failed
    assert not wanted.result.kept, wanted.site.warden.run_detail(wanted.result.run_id)["steps"]
    # How many files Spark wrote depends on how its session is set.
    planned = wanted.plan.plan.totals()["changes"]
    assert wanted.result.changed == planned
    assert (planned["groups"], planned["files"] >= 18) == (6, True)


@pytest.mark.parametrize("name", [*BY_ENGINE, "typed"])
def test_rows_are_what_they_were(wanted: Wanted, name: str) -> None:
    assert repr(rows(wanted.spark, name)) == repr(wanted.before[name])
    assert wanted.spark.sql(f"SELECT count(*) FROM {LAKE}.t.{name}.data_files").collect()[0][0] == 1


@pytest.mark.parametrize("name", list(BY_ENGINE))
def test_icebergs_writers_write_and_our_commit_commits(wanted: Wanted, name: str) -> None:
    assert wanted.plan.table(f"{LAKE}.t.{name}").detail["engine"] == BY_ENGINE[name][1]
    document = wanted.document(name)
    current = next(s for s in document["snapshots"] if s["snapshot-id"] == document["current-snapshot-id"])
    assert current["summary"]["operation"] == "replace"
    assert current["summary"]["lakewarden.run"] == wanted.result.run_id
    assert current["summary"]["deleted-records"] == "12"
    assert current["summary"]["added-records"] == "10"
    (file,) = wanted.spark.sql(f"SELECT file_format, sort_order_id FROM {LAKE}.t.{name}.data_files").collect()
    assert file[0] == (name.upper() if name in ("avro", "orc") else "PARQUET")
    assert (file[1] or 0) == (document["default-sort-order-id"] if name == "bucketed" else 0)


def test_every_uuid_is_found_by_bounds_and_filter(wanted: Wanted) -> None:
    """Java's readers compare uuids by signed halves, in manifests and footers alike: neither may mislead them."""
    for number, one in enumerate(UUIDS):
        found = wanted.spark.sql(f"SELECT m FROM {LAKE}.t.typed WHERE u = '{one}'").collect()
        assert [row[0] for row in found] == [Decimal(number) / 4]
    assert wanted.spark.sql(f"SELECT * FROM {LAKE}.t.typed WHERE u = '{uuid.UUID(int=7)}'").collect() == []


def test_pyiceberg_reads_them_too(wanted: Wanted) -> None:
    found = wanted.site.catalog(LAKE).load_table("t.typed").scan().to_arrow()
    assert sorted(bytes(value) for value in found["f"].to_pylist()) == [bytes([n]) * 20 for n in range(9)]
