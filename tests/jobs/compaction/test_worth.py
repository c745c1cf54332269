"""What a compaction plan takes up, and what it leaves with a reason: many deletes, hot partitions, a budget, branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.model.worth import MEASURED_BYTES
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.deployments import Seen
from tests.support.oracle_tables import delete_equal
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB, LAKE = "compaction", "worthy"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    base = tmp_path_factory.mktemp("worthy")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    with Site(base, {LAKE: properties}) as site:
        yield site


def settings(lake: Site, **values: Any) -> None:
    lake.sections["compaction"] = {"min_input_files": 2, **values}
    lake.close()


def create(spark: SparkSession, name: str, files: int, by: str = "", rows: int = 4) -> str:
    table = f"{LAKE}.t.{name}"
    partitioned = f"PARTITIONED BY ({by})" if by else ""
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, part STRING) USING iceberg {partitioned} TBLPROPERTIES ('format-version'='2')"
    )
    for number in range(files):
        insert(spark, table, number * rows, rows)
    return table


def insert(spark: SparkSession, table: str, first: int, rows: int) -> None:
    spark.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range({first}, {first + rows}, 1, 1)")


def rows_and_files(spark: SparkSession, table: str) -> tuple[int, int]:
    found = [row[0] for row in spark.sql(f"SELECT _file FROM {table}").collect()]
    return len(found), len(set(found))


def reasons(seen: Seen) -> Counter[str]:
    return Counter(row["reason"] for row in seen.rows)


def test_many_equality_deletes_are_a_reason_and_the_next_plan_is_empty(lake: Site, spark: SparkSession) -> None:
    settings(lake, many_deletes=3)
    table = create(spark, "upserts", files=1, rows=10)
    for number in range(3):
        delete_equal(spark, table, [number])
    plan = lake.plan(JOB, table)
    assert reasons(plan) == {"to be rewritten (deletes)": 1}
    worth = plan.table(table).detail["compaction"]
    assert (worth["groups"], worth["files_fewer"], worth["requests"]) == (1, 0, 3)
    assert worth["delete_bytes"] > 0
    assert lake.apply(plan).status == "done"
    assert lake.plan(JOB, table).table(table).changes == {"groups": 0, "files": 0}
    # A file that is newer than the deletes has none of them to read.
    insert(spark, table, 100, 10)
    settings(lake, many_deletes=3, min_input_files=5)
    assert lake.plan(JOB, table).table(table).changes == {"groups": 0, "files": 0}


def test_deletes_without_a_partition_count_in_every_partition(lake: Site, spark: SparkSession) -> None:
    settings(lake, many_deletes=2, min_input_files=5)
    table = create(spark, "evolved", files=1, by="part", rows=10)
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD part")
    for number in range(2):
        delete_equal(spark, table, [number])
    plan = lake.plan(JOB, table)
    assert plan.table(table).detail["compaction"]["requests"] == 2
    assert lake.apply(plan).status == "done"
    assert lake.plan(JOB, table).table(table).changes == {"groups": 0, "files": 0}


def test_a_partition_settles_first(lake: Site, spark: SparkSession) -> None:
    settings(lake, settle_minutes=30)
    table = create(spark, "hot", files=3, by="part")
    whole = create(spark, "unpartitioned", files=3)
    plan = lake.plan(JOB, table, whole)
    assert plan.table(table).changes == {"groups": 0, "files": 0}
    assert plan.table(table).detail["settling"]["groups"] == 1
    assert plan.table(whole).changes == {"groups": 1, "files": 3}
    waiting = "its partition was written to less than 30 minutes ago, and has to settle first"
    assert reasons(plan)[waiting] == 3
    lake.later(1)
    try:
        assert lake.plan(JOB, table).table(table).changes == {"groups": 1, "files": 3}
    finally:
        lake.later(-1)


def test_the_best_groups_are_taken_until_the_budget_is_reached(lake: Site, spark: SparkSession) -> None:
    settings(lake, rate_bytes_per_second=1000, bandwidth_share=1.0)
    poor, good = create(spark, "poor", files=2, rows=3000), create(spark, "good", files=6)
    everything = lake.plan(JOB, poor, good)
    assert everything.plan.totals()["changes"] == {"groups": 2, "files": 8}
    curve = everything.plan.detail["curve"]
    assert [point["requests"] for point in curve] == [5, 6]
    seconds = everything.table(good).detail["compaction"]["seconds"]
    assert seconds == round(everything.table(good).detail["compaction"]["bytes"] / 1000, 1)

    settings(lake, max_bytes_per_run=1)
    plan = lake.plan(JOB, poor, good)
    assert plan.table(good).changes == {"groups": 1, "files": 6}
    assert plan.table(poor).changes == {"groups": 0, "files": 0}
    assert plan.table(poor).detail["beyond_budget"]["groups"] == 1
    left = "beyond the budget (max_bytes_per_run = 1): other groups are worth more"
    assert reasons(plan)[left] == 2
    assert plan.plan.detail["budget"] == {"bytes": 1, "why": "max_bytes_per_run = 1"}
    assert [point["requests"] for point in plan.plan.detail["curve"]] == [5, 6]
    result = lake.apply(plan)
    assert (result.status, result.changed, result.kept) == ("done", {"groups": 1, "files": 6}, {})
    # What was beyond the budget is what the next plan begins with.
    assert lake.plan(JOB, poor, good).table(poor).changes == {"groups": 1, "files": 2}


def test_the_rate_of_earlier_runs_is_remembered(lake: Site, spark: SparkSession) -> None:
    settings(lake)
    table = create(spark, "measured", files=2)
    plan = lake.plan(JOB, table)
    assert plan.plan.detail["rate"] is None
    run = lake.apply(plan)
    ledger = lake.warden._deployment.ledger
    worked = [step.detail for step in ledger.runs.steps(run.run_id) if step.name == "worked"]
    assert [one["bytes"] for one in worked] == [plan.table(table).detail["compaction"]["bytes"]]
    ledger.runs.step(run.run_id, "worked", {"bytes": MEASURED_BYTES, "seconds": 1.0})
    insert(spark, table, 50, 4)
    rate = lake.plan(JOB, table).plan.detail["rate"]
    assert rate["measured"]
    assert rate["bytes_per_second"] > 1


def test_a_branch_is_compacted_by_its_name_and_main_stays_as_it_is(lake: Site, spark: SparkSession) -> None:
    table = create(spark, "branched", files=2)
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    spark.sql(f"INSERT INTO {table}.branch_audit SELECT id, 'a' FROM range(50, 54, 1, 1)")
    settings(lake, branch="audit")
    plan = lake.plan(JOB, table)
    assert (plan.table(table).detail["branch"], plan.table(table).changes) == ("audit", {"groups": 1, "files": 3})
    result = lake.apply(plan)
    assert (result.status, result.changed) == ("done", {"groups": 1, "files": 3})
    assert lake.plan(JOB, table).table(table).changes == {"groups": 0, "files": 0}
    spark.sql(f"REFRESH TABLE {table}")
    assert rows_and_files(spark, table) == (8, 2)
    assert rows_and_files(spark, f"{table}.branch_audit") == (12, 1)
    settings(lake, branch="nowhere")
    assert lake.plan(JOB, table).table(table).detail["inactive"] == "it has no snapshot on a branch nowhere"


def test_explain_and_audit_say_which_group_run_and_commit_a_file_is_of(lake: Site, spark: SparkSession) -> None:
    settings(lake)
    table = create(spark, "told", files=2)
    plan = lake.plan(JOB, table)
    old = plan.rows[0]["uri"]
    assert [one["did"] for one in lake.warden.explain(old)["compaction"]] == ["planned"]
    assert [entry["outcome"] for entry in lake.warden.audit_who(old)] == ["added by append"]
    run = lake.apply(plan)
    spark.sql(f"REFRESH TABLE {table}")
    new = "file://" + spark.sql(f"SELECT _file FROM {table}").collect()[0][0].removeprefix("file:").replace("///", "/")
    head = lake.catalog(LAKE).load_table("t.told").current_snapshot()
    assert head is not None
    for uri, did in ((old, "replaced"), (new, "written")):
        told = lake.warden.explain(uri)["compaction"]
        assert [(one["did"], one["table"], one["run_id"], one["snapshot_id"]) for one in told] == [
            (did, table, run.run_id, head.snapshot_id)
        ]
        (entry,) = (one for one in lake.warden.audit_who(uri) if "run_id" in one)
        assert (entry["outcome"], entry["run_id"], entry["plan_id"]) == (did, run.run_id, plan.plan.plan_id)
