"""Files by Java and by PyIceberg, put together without being decoded: every engine reads the same rows, bounds are the true ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.conversions import from_bytes

from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB, LAKE = "compaction", "copied"
# Half of this is the least that row groups may be on average.
ROW_GROUP = 400_000
COLUMNS = (
    "id BIGINT, n INT, t STRING, d DOUBLE, at TIMESTAMP_NTZ, day DATE, xs ARRAY<STRING>, s STRUCT<x: INT, y: STRING>"
)


@dataclass
class Copied:
    site: Site
    spark: SparkSession

    def table(self, name: str, version: int = 2) -> str:
        self.spark.sql(
            f"CREATE TABLE {LAKE}.t.{name} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version'='{version}', "
            f"'write.parquet.row-group-size-bytes'='{ROW_GROUP}', 'write.parquet.compression-codec'='uncompressed')"
        )
        return f"{LAKE}.t.{name}"

    def insert(self, table: str, start: int) -> None:
        self.spark.sql(
            f"INSERT INTO {table} SELECT IF(id < 0, NULL, id), IF(id % 7 = 0, NULL, int(id)), IF(id < 0, NULL, concat('text ', sha1(string(id)))), "
            "IF(id % 11 = 0, double('NaN'), id / 3), "
            "IF(id < 0, NULL, timestamp_ntz'2026-01-01' + make_interval(0,0,0,0,0,0,id)), "
            "IF(id < 0, NULL, date_add(date'2026-01-01', int(id % 30))), IF(id < 0, NULL, array(string(id), NULL)), "
            "IF(id % 5 = 0, NULL, named_struct('x', int(id), 'y', repeat('z', int(id % 40)))) "
            f"FROM range({start}, {start + 3000}, 1, 1)"
        )

    def rows(self, table: str) -> list[Any]:
        self.spark.sql(f"REFRESH TABLE {table}")
        return sorted(repr(row) for row in self.spark.sql(f"SELECT * FROM {table}").collect())

    def ways(self, run_id: str, table: str) -> list[str]:
        steps = [step["detail"] for step in self.site.warden.run_detail(run_id)["steps"]]
        return [way for step in steps if step.get("table") == table for way in step.get("ways", {}).values()]


@pytest.fixture(scope="module")
def copied(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    base = tmp_path_factory.mktemp("copied")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    with Site(base, {LAKE: properties}) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        yield Copied(site, spark)


@pytest.mark.filterwarnings("ignore:Parquet writer option")  # PyIceberg has row groups of another size
@pytest.mark.parametrize("writers", ["java", "both"])
def test_rows_of_java_and_pyiceberg_are_copied(copied: Copied, writers: str) -> None:
    table = copied.table(writers)
    for start in (0, 3000, 6000):
        copied.insert(table, start)
    loaded = copied.site.catalog(LAKE).load_table(f"t.{writers}")
    if writers == "both":
        rows = loaded.scan(limit=3000).to_arrow()
        loaded.append(rows)
    before = copied.rows(table)
    expected = loaded.refresh().scan().to_arrow().sort_by("id")
    run = copied.site.apply(copied.site.plan(JOB, table))
    assert run.status == "done", run.failed
    assert copied.ways(run.run_id, table) == ["copied"], copied.site.warden.run_detail(run.run_id)["steps"]
    assert copied.rows(table) == before
    found = loaded.refresh().scan().to_arrow().sort_by("id")
    assert repr(found.to_pylist()) == repr(expected.to_pylist())
    (file,) = [task.file for task in loaded.scan().plan_files()]
    assert file.nan_value_counts == {4: sum(value != value for value in expected["d"].to_pylist())}
    for number, name in ((1, "id"), (2, "n"), (5, "at"), (6, "day")):
        kind: Any = loaded.schema().find_type(number)
        values = [value for value in as_numbers(expected[name]).to_pylist() if value is not None]
        bounds = [from_bytes(kind, ends[number]) for ends in (file.lower_bounds, file.upper_bounds)]
        assert bounds == [min(values), max(values)]
        assert file.null_value_counts[number] == expected[name].null_count


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def test_rows_of_version_3_that_do_not_store_their_ids_are_encoded(copied: Copied) -> None:
    table = copied.table("lineage", version=3)
    for start in (0, 3000, 6000):
        copied.insert(table, start)
    read = f"SELECT id, _row_id, _last_updated_sequence_number FROM {table}"
    before = sorted(copied.spark.sql(read).collect())
    run = copied.site.apply(copied.site.plan(JOB, table))
    (way,) = copied.ways(run.run_id, table)
    assert way.startswith("encoded: ")
    assert way.endswith("other columns than the table has now")
    copied.spark.sql(f"REFRESH TABLE {table}")
    assert sorted(copied.spark.sql(read).collect()) == before
