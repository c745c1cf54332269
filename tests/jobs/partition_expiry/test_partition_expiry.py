"""Partition expiry of Iceberg tables: whole partitions go, by a commit that Iceberg's own readers and writers go on from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.run import RunResult
from lakewarden.steps.plan.own_commits import OURS
from tests.jobs.partition_expiry import partitioned
from tests.jobs.partition_expiry.partitioned import Rows, rows_of
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of, files_below
from tests.support.deployments import Seen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "partition-expiry"
LAKE = "aging"
NAMES = tuple(table.__name__ for table in partitioned.TABLES)

LEFT = {
    "days": {*range(4, 10), *range(104, 110)} - {108},
    "hours_v3": {*range(12, 24), *range(112, 124)} - {123},
    "months_v1": set(range(40)),
    "texts": {*range(4, 10), 300, 301},
    "evolved": {*range(10), *range(104, 110), *range(204, 210)} - {1, 109},
    "upgraded": {*range(4, 10), *range(104, 110)},
    "upgraded_v2": set(range(4, 10)),
    "ageless": set(range(10)),
}
GONE = {
    "days": {"at_day=2024-01-01", "at_day=2024-01-02"},
    "months_v1": {"at_month=2023-11", "at_month=2023-12"},
    "texts": {"region=eu/dt=20240101", "region=us/dt=20240102"},
    "upgraded": {"d=2024-01-01", "d=2024-01-02"},
    "ageless": set[str](),
}
KEPT = {
    "days": "at_day ended 2024-01-04 00:00:00, not more than",
    "texts": "'soon' is no time of the form yyyyMMdd",
    "evolved": "spec 0 has no field that tells a time",
    "ageless": "spec 0 has no field that tells a time",
}


@dataclass(frozen=True)
class Aged:
    """A lake before and after."""

    site: Site
    spark: SparkSession
    plan: Seen
    result: RunResult
    again: Seen
    before: dict[str, dict[int, Rows]]
    row_ids: Rows

    def snapshots(self, name: str) -> dict[int, Rows]:
        return snapshots(self.spark, name)

    def document(self, name: str) -> dict[str, Any]:
        return document_of(self.site.catalog(LAKE).load_table(f"t.{name}"))


def snapshots(spark: SparkSession, name: str) -> dict[int, Rows]:
    """What each snapshot shows to Spark."""
    numbers = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {LAKE}.t.{name}.snapshots").collect()]
    return {number: rows_of(spark, f"{LAKE}.t.{name} VERSION AS OF {number}") for number in numbers}


@pytest.fixture(scope="module")
def aged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aged]:
    base = tmp_path_factory.mktemp("partitions")
    properties = partitioned.build(spark, base, LAKE)
    with Site(base, {LAKE: properties}) as site:
        site.sections["partition_expiry"] = {"batch_size": 4, "max_drop_share": 1.0}
        before = {name: snapshots(spark, name) for name in NAMES}
        row_ids = rows_of(spark, f"{LAKE}.t.hours_v3", "id, _row_id")
        disk = files_below(base / "warehouse")
        plan = site.plan(JOB)
        result = site.apply(plan, actor=Actor("ada", "tester", Trigger.INCIDENT_RESPONSE, "LAKE-7"))
        assert disk <= files_below(base / "warehouse")
        yield Aged(site, spark, plan, result, site.plan(JOB), before, row_ids)


def test_the_plan_names_what_goes_and_why_the_rest_stays(aged: Aged) -> None:
    details = {name: aged.plan.table(f"{LAKE}.t.{name}").detail for name in NAMES}
    for name, labels in GONE.items():
        assert {line["label"] for line in details[name]["expire"]} == labels
    assert len(details["hours_v3"]["expire"]) == 6
    for name, reason in KEPT.items():
        assert any(reason in line["reason"] for line in details[name]["keep"])
    assert [len(details[name]["batches"]) for name in ("hours_v3", "days")] == [2, 1]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left(aged: Aged, name: str) -> None:
    assert aged.result.status == "done", aged.result.failed
    assert {row[0] for row in rows_of(aged.spark, f"{LAKE}.t.{name}")} == LEFT[name]
    after = aged.snapshots(name)
    assert {number: after[number] for number in aged.before[name]} == aged.before[name]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("hours_v3", "upgraded")])
def test_pyiceberg_reads_the_same(aged: Aged, name: str) -> None:
    table = aged.site.catalog(LAKE).load_table(f"t.{name}")
    assert set(table.scan().to_arrow()["id"].to_pylist()) == LEFT[name]


def test_nothing_is_left_to_do(aged: Aged) -> None:
    assert aged.again.plan.totals()["changes"] == {"partitions": 0}
    assert not any(table.refusal for table in aged.again.plan.tables)


def test_the_commit_says_what_it_is_and_whose(aged: Aged) -> None:
    made = aged.document("days")["snapshots"][-1]
    summary = made["summary"]
    assert (summary["operation"], summary["lakewarden.job"]) == ("delete", JOB)
    assert (summary["lakewarden.run"], summary["writer.id"]) == (aged.result.run_id, "tester")
    # Who applied it, not who planned it.
    trigger = {name: summary[f"trigger.{name}"] for name in ("type", "operator", "ticket")}
    assert trigger == {"type": "incident-response", "operator": "ada", "ticket": "LAKE-7"}
    assert set(OURS) <= summary.keys()
    assert (summary["input.snapshot_ids"], summary["input.row_count"]) == (str(made["parent-snapshot-id"]), "8")
    assert summary["input.bytes_compressed"] == summary["removed-files-size"]
    # Ten rows in two files a day; the position delete of row 100 goes with its partition, that of 108 stays.
    counts = {name: summary[name] for name in ("deleted-data-files", "deleted-records", "removed-delete-files")}
    assert counts == {"deleted-data-files": "4", "deleted-records": "8", "removed-delete-files": "1"}
    assert (summary["total-data-files"], summary["total-delete-files"]) == ("6", "1")
    assert (summary["total-records"], summary["total-position-deletes"]) == ("12", "1")


def test_row_ids_of_version_3_stay(aged: Aged) -> None:
    after = rows_of(aged.spark, f"{LAKE}.t.hours_v3", "id, _row_id")
    assert after == tuple(row for row in aged.row_ids if row[0] in LEFT["hours_v3"])
    files = aged.spark.sql(f"SELECT content, file_format FROM {LAKE}.t.hours_v3.files WHERE content > 0")
    assert [tuple(row) for row in files.collect()] == [(1, "PUFFIN")]
    summaries = [snapshot["summary"] for snapshot in aged.document("hours_v3")["snapshots"][-2:]]
    assert sum(int(summary.get("removed-dvs", 0)) for summary in summaries) == 2


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("texts", "ageless")])
def test_iceberg_itself_goes_on_from_there(aged: Aged, name: str) -> None:
    """Its writers append, delete and rewrite manifests on top of our commits."""
    spark, table = aged.spark, f"{LAKE}.t.{name}"
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id = {max(LEFT[name])}")
    spark.sql(f"DELETE FROM {table} WHERE id = {max(LEFT[name])}")
    spark.sql(f"CALL {LAKE}.system.rewrite_manifests('t.{name}')")
    assert {row[0] for row in rows_of(spark, table)} == LEFT[name] - {max(LEFT[name])}


def test_a_partition_that_was_written_to_since_the_plan_is_kept_and_named(aged: Aged) -> None:
    spark, name = aged.spark, f"{LAKE}.t.days"
    partitioned.insert(spark, name, 1000)
    plan = aged.site.plan(JOB, name)
    assert {line["label"] for line in plan.table(name).detail["expire"]} == GONE["days"]
    partitioned.insert(spark, name, 2000, count=1)
    result = aged.site.apply(plan)
    assert (result.status, result.changed) == ("partial", {"partitions": 1})
    assert [file.uri for file in result.failed] == [f"{name} at_day=2024-01-01"]
    old = {row[0] for row in rows_of(spark, name) if row[0] >= 1000}
    assert old == {1000, 1001, 2000, *range(1004, 1010)}


def test_a_run_that_crashed_behind_its_commit_goes_on_and_makes_none_twice(
    aged: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{LAKE}.t.upgraded"
    partitioned.insert(aged.spark, name, 1000, "CAST(at AS DATE)")
    plan = aged.site.plan(JOB, name)
    runs = aged.site.warden._deployment.ledger.runs
    step = runs.step

    def crash(run_id: str, kind: str, detail: Any) -> None:
        if kind == "dropped":
            raise KeyboardInterrupt
        step(run_id, kind, detail)

    monkeypatch.setattr(runs, "step", crash)
    before = len(aged.document("upgraded")["snapshots"])
    with pytest.raises(KeyboardInterrupt):
        aged.site.apply(plan)
    monkeypatch.undo()
    result = aged.site.apply(plan)
    assert (result.status, result.changed) == ("done", {"partitions": 2})
    assert len(aged.document("upgraded")["snapshots"]) == before + 1
