"""Every history of a table reads the same rows before and after its files were rewritten, by Spark and by PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.model.run import RunResult
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of
from tests.support.deployments import Seen
from tests.support.oracle_tables import BUILDERS
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB, LAKE = "compaction", "squeezed"
NAMES = [build.__name__ for build in BUILDERS]
# Version 3: rows keep their ids and the commit that last changed them.
LINEAGE = {"deletion_vectors", "upgraded"}

Rows = list[Any]


@dataclass(frozen=True)
class Squeezed:
    site: Site
    spark: SparkSession
    plan: Seen
    result: RunResult
    again: Seen
    before: dict[str, Rows]
    counted: dict[str, int]

    def document(self, name: str) -> dict[str, Any]:
        return document_of(self.site.catalog(LAKE).load_table(f"t.{name}"))


def rows(spark: SparkSession, name: str) -> Rows:
    more = ", _row_id, _last_updated_sequence_number" if name in LINEAGE else ""
    return sorted((tuple(row) for row in spark.sql(f"SELECT *{more} FROM {LAKE}.t.{name}").collect()), key=repr)


def data_files(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"SELECT count(*) FROM {LAKE}.t.{name}.data_files").collect()[0][0])


@pytest.fixture(scope="module")
def squeezed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Squeezed]:
    base = tmp_path_factory.mktemp("compaction")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    for build in BUILDERS:
        build(spark, f"{LAKE}.t.{build.__name__}", base)
    with Site(base, {LAKE: properties}) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        before = {name: rows(spark, name) for name in NAMES}
        counted = {name: data_files(spark, name) for name in NAMES}
        plan = site.plan(JOB)
        result = site.apply(plan)
        yield Squeezed(site, spark, plan, result, site.plan(JOB), before, counted)


def test_the_run_is_done(squeezed: Squeezed) -> None:
    assert squeezed.result.status == "done", squeezed.result.failed
    assert squeezed.result.changed["groups"] > 10
    assert not squeezed.result.kept, squeezed.site.warden.run_detail(squeezed.result.run_id)["steps"]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_what_they_were(squeezed: Squeezed, name: str) -> None:
    squeezed.spark.sql(f"REFRESH TABLE {LAKE}.t.{name}")
    assert rows(squeezed.spark, name) == squeezed.before[name]


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"never_written"}))
def test_files_are_fewer_and_the_next_plan_is_empty(squeezed: Squeezed, name: str) -> None:
    planned = squeezed.plan.table(f"{LAKE}.t.{name}")
    assert planned.refusal is None
    again = squeezed.again.table(f"{LAKE}.t.{name}")
    assert again.changes == {"groups": 0, "files": 0}
    expected = squeezed.counted[name] - planned.changes["files"] + planned.detail["compaction"]["files_after"]
    assert data_files(squeezed.spark, name) == expected
