"""Histories beyond the common ones: Spark, Java and PyIceberg read the same rows before and after, of every branch and tag, and
what manifests say of the new files is true. Afterwards Iceberg's own procedures go on with the tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lakewarden.model.run import RunResult
from tests.jobs.compaction.histories import BUILDS
from tests.jobs.compaction.readings import Readings, readings
from tests.jobs.compaction.true_metrics import data_files, wrong_metrics
from tests.jobs.compaction.workshop import Workshop
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of
from tests.support.deployments import Seen
from tests.support.oracle_tables import MERGE_ON_READ
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB, LAKE = "compaction", "histories"
NAMES = [build.__name__ for build in BUILDS]
# Left alone by name, or right: what was written before the table was Iceberg's, other formats, types of PyIceberg's.
LEFT_OR_RIGHT = {"hive_import", "plain_import", "other_formats", "types_that_spark_lacks"}


@dataclass(frozen=True)
class Compacted:
    workshop: Workshop
    site: Site
    plan: Seen
    result: RunResult
    again: Seen
    before: dict[str, Readings]
    refs: dict[str, dict[str, Any]]

    def left(self, name: str) -> list[str]:
        """Why groups of a table were left alone."""
        steps = self.site.warden.run_detail(self.result.run_id)["steps"]
        details = (step.get("detail") or {} for step in steps)
        return [d["why"] for d in details if d.get("table") == self.workshop.name(name) and "why" in d]


@pytest.fixture(scope="module")
def compacted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compacted]:
    base = tmp_path_factory.mktemp("histories")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    with Site(base, {LAKE: properties}) as site:
        workshop = Workshop(spark, LAKE, site.catalog(LAKE), base)
        for build in BUILDS:
            build(workshop)
        site.sections["compaction"] = {"min_input_files": 2}
        before = {name: readings(workshop, name) for name in NAMES}
        refs = {name: document_of(workshop.table(name))["refs"] for name in NAMES}
        plan = site.plan(JOB)
        result = site.apply(plan)
        yield Compacted(workshop, site, plan, result, site.plan(JOB), before, refs)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_what_they_were(compacted: Compacted, name: str) -> None:
    assert readings(compacted.workshop, name) == compacted.before[name]
    assert all(compacted.before[name].values())
    refs = document_of(compacted.workshop.table(name))["refs"]
    assert {k: v for k, v in refs.items() if k != "main"} == {
        k: v for k, v in compacted.refs[name].items() if k != "main"
    }


@pytest.mark.parametrize("name", NAMES)
def test_manifests_tell_the_truth_of_new_files(compacted: Compacted, name: str) -> None:
    assert wrong_metrics(compacted.workshop.table(name), compacted.result.run_id) == []


@pytest.mark.parametrize("name", sorted(set(NAMES) - LEFT_OR_RIGHT))
def test_files_are_fewer_and_the_next_plan_is_empty(compacted: Compacted, name: str) -> None:
    planned = compacted.plan.table(compacted.workshop.name(name))
    assert planned.refusal is None
    assert planned.changes["groups"]
    assert compacted.left(name) == []
    assert compacted.again.table(compacted.workshop.name(name)).changes == {"groups": 0, "files": 0}


@pytest.mark.parametrize("name", sorted(LEFT_OR_RIGHT))
def test_what_cannot_be_carried_exactly_is_left_by_name(compacted: Compacted, name: str) -> None:
    """None of it is told to be damaged. Where a group is not left, its rows were compared above."""
    refusal = compacted.plan.table(compacted.workshop.name(name)).refusal
    if refusal is not None:
        assert refusal.code == "LW-TABLE-003"
    for why in compacted.left(name):
        assert why.startswith("LW-TABLE-003") or "not Parquet" in why


def test_no_file_is_told_to_be_sorted_that_is_not(compacted: Compacted) -> None:
    assert [file.sort_order_id for file in data_files(compacted.workshop.table("once_sorted"))] == [0]


@pytest.mark.parametrize("name", ["evolved_columns", "vectors_and_values_v3", "odd_partitions", "risen_from_v1"])
def test_the_tables_about_the_table_can_be_read(compacted: Compacted, name: str) -> None:
    w = compacted.workshop
    for about in ("entries", "manifests", "files", "partitions", "snapshots", "all_manifests", "position_deletes"):
        w.spark.sql(f"SELECT * FROM {w.name(name)}.{about}").collect()
    told = w.spark.sql(f"SELECT sum(record_count) FROM {w.name(name)}.data_files").collect()[0][0]
    totals = w.table(name).current_snapshot()
    assert totals is not None
    assert totals.summary is not None
    assert int(totals.summary["total-records"]) == told


def test_headers_of_manifests_have_the_columns_of_today(compacted: Compacted) -> None:
    """Bounds of a column that was widened are as long as its type is now."""
    table = compacted.workshop.table("evolved_columns")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    told = []
    for manifest in snapshot.manifests(table.io):
        with table.io.new_input(manifest.manifest_path).open() as file:
            told.append((manifest.added_files_count, json.loads(fastavro.reader(file).metadata["schema"])["schema-id"]))
    assert (1, table.metadata.current_schema_id) in told


# Iceberg's own procedures, from here on: they change the tables, so these tests stand last.


def test_readers_of_changes_see_none(compacted: Compacted) -> None:
    """A stream over the whole history has each row once, and so has a reader of what came since the first snapshot."""
    w = compacted.workshop
    name = w.name("bounds")
    stream = w.spark.readStream.format("iceberg").load(name).writeStream.format("memory").queryName("streamed")
    query = stream.option("checkpointLocation", f"{w.base}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(row[0] for row in w.spark.sql("SELECT id FROM streamed").collect()) == [1, 2, 3, 4]
    first, *_, last = (s["snapshot-id"] for s in document_of(w.table("bounds"))["snapshots"])
    since = w.spark.read.format("iceberg").option("start-snapshot-id", first).option("end-snapshot-id", last)
    assert sorted(row[0] for row in since.load(name).collect()) == [3, 4]


@pytest.mark.parametrize("name", ["vectors_and_values_v3", "deletes_of_java", "positions_of_many_files"])
def test_iceberg_goes_on(compacted: Compacted, name: str) -> None:
    """MERGE, deletes on read, and the procedures that rewrite and expire: each leaves the rows that it should."""
    w, table = compacted.workshop, compacted.workshop.name(name)

    def ids() -> list[Any]:
        return sorted((row[0] for row in w.spark.sql(f"SELECT id FROM {table}").collect()), key=repr)

    def call(procedure: str, more: str = "") -> None:
        w.spark.sql(f"CALL {LAKE}.system.{procedure}(table => '{table}'{more})")

    w.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({MERGE_ON_READ})")
    rows = ids()
    taken = sorted({number for number in rows if number is not None})[:2]
    w.spark.sql(f"DELETE FROM {table} WHERE id = {taken[0]}")
    w.spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM VALUES ({taken[1]}), (-5) AS v(id)) u ON t.id = u.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)"
    )
    expected = sorted([number for number in rows if number not in taken] + [-5], key=repr)
    assert ids() == expected
    call("rewrite_position_delete_files", ", options => map('rewrite-all', 'true')")
    assert ids() == expected
    call("rewrite_data_files", ", options => map('rewrite-all', 'true')")
    call("rewrite_manifests")
    call("expire_snapshots", ", older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1")
    assert ids() == expected
