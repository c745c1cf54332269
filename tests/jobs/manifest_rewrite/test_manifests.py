"""Manifests clustered by partition: only where it helps, with nothing lost or gained, under other writers' eyes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.table.update import SetSnapshotRefUpdate

from lakewarden.formats.iceberg import open_format
from lakewarden.model.errors import SparkFailedError
from lakewarden.model.manifests import ManifestLine, Range, survey_of
from lakewarden.model.run import RunResult
from lakewarden.model.table import Pointer
from lakewarden.pipeline.rewrite import manifests as rewriting
from lakewarden.steps.plan.own_commits import OURS
from lakewarden.storage.stores import Stores
from tests.jobs.partition_expiry.partitioned import Rows, create, insert, rows_of
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of, files_below, rows_at
from tests.support.buckets import Bucket
from tests.support.deployments import Seen
from tests.support.lakes import write_table
from tests.support.policies import manifest_policy
from tests.support.rest import Serve
from tests.support.spark import add_sqlite_catalog
from tests.support.storage import Seaweed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JOB = "manifest-rewrite"
LAKE = "clustered"
UNMERGED = "'commit.manifest-merge.enabled'='false'"


def old(spark: SparkSession, table: str) -> None:
    """Version 1."""
    create(spark, table, "days(at)", 1, more=UNMERGED)
    for first in range(0, 400, 100):
        insert(spark, table, first)


def evolved(spark: SparkSession, table: str) -> None:
    """Two specs, and deletes in both."""
    create(spark, table, "days(at)", more=UNMERGED)
    for first in range(0, 300, 100):
        insert(spark, table, first)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    for first in range(300, 600, 100):
        insert(spark, table, first)
    spark.sql(f"DELETE FROM {table} WHERE id IN (1, 203, 401, 507)")


def row_ids(spark: SparkSession, table: str) -> None:
    """Version 3, with a deletion vector."""
    create(spark, table, "days(at)", 3, more=UNMERGED)
    for first in range(0, 400, 100):
        insert(spark, table, first)
    spark.sql(f"DELETE FROM {table} WHERE id = 103")


def emptied(spark: SparkSession, table: str) -> None:
    """One manifest lists nothing that is live any more."""
    create(spark, table, "days(at)", more=UNMERGED)
    for first in range(0, 400, 100):
        insert(spark, table, first)
    spark.sql(f"DELETE FROM {table} WHERE id < 100")


def in_order(spark: SparkSession, table: str) -> None:
    """A day a manifest already."""
    create(spark, table, "days(at)", more=UNMERGED)
    for day in range(4):
        insert(spark, table, day * 10, start=f"0{day + 1} 00:10", minutes=10, count=2)


def few(spark: SparkSession, table: str) -> None:
    """One manifest."""
    create(spark, table, "days(at)")
    insert(spark, table, 0)


TABLES = (old, evolved, row_ids, emptied, in_order, few)
REWRITTEN = ("old", "evolved", "row_ids", "emptied")


@dataclass(frozen=True)
class Clustered:
    site: Site
    spark: SparkSession
    plan: Seen
    result: RunResult
    again: Seen
    before: dict[str, Rows]
    files: dict[str, Rows]

    def document(self, name: str) -> dict[str, Any]:
        return document_of(self.site.catalog(LAKE).load_table(f"t.{name}"))


def columns(name: str) -> str:
    return "id, at, _row_id" if name == "row_ids" else "id, at"


def live_files(spark: SparkSession, name: str) -> Rows:
    """Every live entry with what it must keep: its file, spec, snapshot and sequence numbers."""
    fields = "snapshot_id, sequence_number, file_sequence_number, data_file.file_path, data_file.spec_id"
    found = spark.sql(f"SELECT {fields}, data_file.content FROM {LAKE}.t.{name}.entries WHERE status < 2")
    return tuple(sorted(tuple(row) for row in found.collect()))


@pytest.fixture(scope="module")
def clustered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clustered]:
    base = tmp_path_factory.mktemp("manifests")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    for table in TABLES:
        table(spark, f"{LAKE}.t.{table.__name__}")
    with Site(base, {LAKE: properties}) as site:
        site.sections["manifest_rewrite"] = {"min_manifests": 3}
        names = [table.__name__ for table in TABLES]
        before = {name: rows_of(spark, f"{LAKE}.t.{name}", columns(name)) for name in names}
        files = {name: live_files(spark, name) for name in names}
        disk = files_below(base / "warehouse")
        plan = site.plan(JOB)
        result = site.apply(plan)
        assert disk <= files_below(base / "warehouse")
        yield Clustered(site, spark, plan, result, site.plan(JOB), before, files)


def test_the_plan_says_how_much_it_would_help(clustered: Clustered) -> None:
    details = {table.__name__: clustered.plan.table(f"{LAKE}.t.{table.__name__}").detail for table in TABLES}
    assert (details["old"]["before"], details["old"]["after"]) == (
        {"manifests": 4, "opened": 4.0},
        {"manifests": 1, "opened": 1.0},
    )
    assert details["old"]["gain"] == 0.75
    assert [one["spec"] for one in details["evolved"]["specs"]] == [0, 1]
    assert "opens 1.0 manifests, and 1.0 afterwards; min_gain is 30%" in details["in_order"]["inactive"]
    assert details["few"]["inactive"] == "it has 1 manifest; min_manifests is 3"
    changes = {name: clustered.plan.table(f"{LAKE}.t.{name}").changes["manifests"] for name in details}
    assert (changes["old"], changes["emptied"], changes["in_order"], changes["few"]) == (4, 4, 0, 0)
    assert details["emptied"]["before"] == {"manifests": 4, "opened": 3.0}
    assert clustered.result.changed["manifests"] == sum(changes.values())


@pytest.mark.parametrize("name", [table.__name__ for table in TABLES])
def test_rows_and_files_are_what_they_were(clustered: Clustered, name: str) -> None:
    assert clustered.result.status == "done", clustered.result.failed
    assert rows_of(clustered.spark, f"{LAKE}.t.{name}", columns(name)) == clustered.before[name]
    assert live_files(clustered.spark, name) == clustered.files[name]


@pytest.mark.parametrize("name", REWRITTEN)
def test_each_partition_is_in_one_place_now(clustered: Clustered, name: str) -> None:
    found = clustered.spark.sql(f"SELECT content, partition_spec_id FROM {LAKE}.t.{name}.manifests").collect()
    assert len(found) == len({tuple(row) for row in found})
    assert clustered.again.table(f"{LAKE}.t.{name}").changes == {"manifests": 0}


@pytest.mark.parametrize("name", REWRITTEN)
def test_the_commit_says_what_it_is_and_no_other_metadata_is_left(clustered: Clustered, name: str) -> None:
    document = clustered.document(name)
    summary = document["snapshots"][-1]["summary"]
    assert (summary["operation"], summary["lakewarden.job"]) == ("replace", JOB)
    assert (summary["lakewarden.run"], summary["writer.id"]) == (clustered.result.run_id, "tester")
    assert summary["trigger.type"] == "manual"
    assert set(OURS) <= summary.keys()
    assert summary["input.snapshot_ids"] == str(document["snapshots"][-1]["parent-snapshot-id"])
    assert min(int(summary["input.row_count"]), int(summary["input.bytes_compressed"])) > 0
    table = clustered.site.catalog(LAKE).load_table(f"t.{name}")
    known = {*(entry["metadata-file"] for entry in document["metadata-log"]), table.metadata_location}
    on_disk = files_below(clustered.site.base / "warehouse" / "t" / name / "metadata")
    assert {path.name for path in on_disk if path.name.endswith(".json")} == {uri.rpartition("/")[2] for uri in known}


def test_another_writer_in_between_is_not_lost(clustered: Clustered, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewriting begins again on the table that the other one left."""
    spark, name = clustered.spark, f"{LAKE}.t.in_order"
    for first in (1000, 1100, 1200):
        insert(spark, name, first)
    plan = clustered.site.plan(JOB, name)
    tries: list[int] = []
    rewrite = rewriting.rewrite_manifests

    def slow(*given: Any) -> Any:
        made = rewrite(*given)
        assert made is not None
        tries.append(made["snapshot-id"])
        if len(tries) == 1:
            insert(spark, name, 2000)
        return made

    monkeypatch.setattr(rewriting, "rewrite_manifests", slow)
    before = rows_of(spark, name)
    assert clustered.site.apply(plan).status == "done"
    assert rows_of(spark, name) == tuple(sorted({*before, *((2000 + i,) for i in range(10))}))
    ids = [snapshot["snapshot-id"] for snapshot in clustered.document("in_order")["snapshots"]]
    assert (len(tries), tries[0] in ids, tries[1] == ids[-1]) == (2, False, True)


def test_a_snapshot_that_lost_a_file_is_never_committed(clustered: Clustered, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, name = clustered.spark, f"{LAKE}.t.few"
    for first in (1000, 1100, 1200):
        insert(spark, name, first)
    before = clustered.document("few")
    plan = clustered.site.plan(JOB, name)
    parent, other = before["snapshots"][-1], before["snapshots"][-2]

    def losing(*_: Any) -> Any:
        return {**other, "snapshot-id": 77, "parent-snapshot-id": parent["snapshot-id"]}

    monkeypatch.setattr(rewriting, "rewrite_manifests", losing)
    result = clustered.site.apply(plan)
    assert (result.status, result.failed[0].code) == ("failed", "LW-APPLY-004")
    assert clustered.document("few") == before


def test_behind_a_rest_catalog(spark: SparkSession, serve: Serve, tmp_path: Path) -> None:
    """No client of ours in Java: the server hears of the snapshot from the same one as ever."""
    uri = serve({"warehouse": f"file://{tmp_path}/warehouse"}).uri
    with Site(tmp_path, {"served": {"type": "rest", "uri": uri}}) as site:
        site.sections["manifest_rewrite"] = {"min_manifests": 3}
        catalog = site.catalog("served")
        catalog.create_namespace("t")
        table = write_table(catalog, "t.parts", appends=4, properties={"commit.manifest-merge.enabled": "false"})  # type: ignore[arg-type]
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "kept").commit()  # type: ignore[arg-type]
        rows = rows_at(table)
        result = site.run(JOB)
        assert (result.status, result.changed) == ("done", {"manifests": 4})
        table = catalog.load_table("t.parts")
        assert rows_at(table) == rows
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert len(snapshot.manifests(table.io)) == 1
        assert set(table.refs()) == {"main", "kept"}


def test_on_an_s3_server(spark: SparkSession, bucket: Bucket, seaweed: Seaweed, tmp_path: Path) -> None:
    """Java opens the store with what the catalog's properties say in PyIceberg's words; so does the drop of a partition."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{bucket.name}/wh",
        "s3.endpoint": seaweed.endpoint,
        "s3.access-key-id": seaweed.access_key,
        "s3.secret-access-key": seaweed.secret_key,
        "s3.region": "us-east-1",
    }
    with Site(tmp_path, {"distant": properties}) as site:
        site.sections["manifest_rewrite"] = {"min_manifests": 3}
        site.sections["partition_expiry"] = {"expiration_hours": 1, "timestamp_pattern": "$part"}
        catalog = site.catalog("distant")
        catalog.create_namespace("t")
        table = write_table(catalog, "t.parts", appends=4, properties={"commit.manifest-merge.enabled": "false"})  # type: ignore[arg-type]
        rows = rows_at(table)
        assert site.run(JOB).changed == {"manifests": 4}
        assert rows_at(catalog.load_table("t.parts")) == rows
        # Parts a and b are no days, so they stay; another one is.
        table = catalog.load_table("t.parts")
        table.append(pa.table({"id": pa.array([99], pa.int64()), "part": ["2024-01-01"]}))
        assert site.run("partition-expiry").changed == {"partitions": 1}
        assert rows_at(catalog.load_table("t.parts")) == rows


def test_a_commit_that_was_rolled_back_is_not_taken_for_made(tmp_path: Path) -> None:
    """It is still in the table's list; main goes another way."""
    with Site.on_sqlite(tmp_path) as site:
        catalog = site.catalog()
        catalog.create_namespace("t")
        table = write_table(catalog, "t.parts", appends=1)  # type: ignore[arg-type]
        row = pa.table({"id": pa.array([99], pa.int64()), "part": ["z"]})
        table.append(row, snapshot_properties={"lakewarden.commit": "kept"})
        kept = table.metadata.current_snapshot_id
        assert kept is not None
        table.append(row, snapshot_properties={"lakewarden.commit": "undone"})
        rewriter = open_format("lake", site.catalogs["lake"], Stores({}), lambda *_: None).manifest_rewriter
        assert rewriter is not None

        def commits() -> dict[str, int]:
            pointer = Pointer("lake.t.parts", table.metadata_location)
            found = rewriter.open(pointer, str(table.metadata.table_uuid)).commits
            return {name: made["snapshot"] for name, made in found.items()}

        assert commits() == {"kept": kept, "undone": table.metadata.current_snapshot_id}
        update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": kept}
        catalog.commit_table(table, (), (SetSnapshotRefUpdate.model_validate(update),))
        table = catalog.load_table("t.parts")
        table.append(row)
        assert commits() == {"kept": kept}


def test_without_icebergs_runtime_the_setting_to_add_is_named() -> None:
    from py4j.java_gateway import JavaPackage

    class Jvm:
        def __getattr__(self, name: str) -> Any:
            # A package is what Py4J hands out for a class that is not there.
            return JavaPackage(name, None) if name == "SparkActions" else self

    with pytest.raises(SparkFailedError) as raised:
        rewriting.check_runtime(Jvm())
    assert "spark.jars.packages" in str(raised.value.hint)
    assert rewriting.packages_for(["file:///t", "s3://b/t"]) == (rewriting.RUNTIME, rewriting.AWS)
    assert rewriting.packages_for(["file:///t"]) == (rewriting.RUNTIME,)


def line(lower: int, upper: int, size: int = 100, spec: int = 0) -> ManifestLine:
    return ManifestLine(spec, 0, size, (Range(lower, upper, nulls=False),))


def test_what_a_query_opens() -> None:
    policy = manifest_policy(min_manifests=2, min_gain=0.3)
    # Ten manifests that each span everything, small enough for one.
    found = survey_of([line(0, 9)] * 10, 8000, policy).whole
    assert (found.opened, found.opened_after, found.manifests_after) == (10, 1, 1)
    # The same with so many bytes that ten are needed still: of the two partitions known, nine boundaries lie somewhere.
    found = survey_of([line(0, 9, 8000)] * 10, 8000, policy).whole
    assert (found.opened, found.opened_after, found.manifests_after) == (10, 5.5, 10)
    # One partition each: nothing to gain, however many.
    assert survey_of([line(day, day) for day in range(50)], 8000, policy).left is not None
    # A bound that is not known holds everything.
    unknown = ManifestLine(0, 0, 100, (Range(None, None, nulls=True),))
    assert survey_of([unknown] * 4, 8000, policy).whole.opened == 4


def test_manifests_that_list_nothing_go_too_and_are_opened_by_no_query() -> None:
    policy = manifest_policy(min_manifests=2, min_gain=0.3)
    nothing = ManifestLine(0, 0, 100, (), empty=True)
    found = survey_of([*[line(0, 9)] * 10, nothing], 8000, policy).whole
    assert (found.manifests, found.going, found.opened, found.manifests_after) == (11, 11, 10, 1)
    # Those of a spec that is not rewritten stay, and so does one that would be written as it is.
    other = ManifestLine(1, 0, 100, (), empty=True)
    deletes = ManifestLine(0, 1, 100, (Range(0, 9, nulls=False),))
    found = survey_of([*[line(0, 9)] * 10, deletes, other], 8000, policy).whole
    assert (found.manifests, found.going) == (11, 10)


def test_only_specs_that_gain_are_rewritten() -> None:
    policy = manifest_policy(min_manifests=2, min_gain=0.1)
    lines = [*[line(0, 9)] * 10, *(line(day, day, spec=1) for day in range(5))]
    assert [one.spec for one in survey_of(lines, 8000, policy).specs] == [0]
