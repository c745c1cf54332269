"""Snapshot expiry and physical deletion of every history beside Iceberg's own `expire_snapshots`: the same snapshots and
refs go, the same files are left, and where ours keeps more the reason stands with the history.

Java works on the same files: each table is registered in a catalog of Java's own, where its expiry commits and names the
files that it would delete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lakewarden.model.run import RunResult
from tests.jobs.snapshot_expiry.expiry_histories import HISTORIES
from tests.jobs.snapshot_expiry.expiry_pen import History, Pen, arrow
from tests.jobs.snapshot_expiry.expiry_site import (
    EXPIRY,
    HOUR_MS,
    Rows,
    Site,
    backdate,
    files_below,
    needed_by,
    refs_of,
    rows_of_all,
    snapshot_ids,
)
from tests.support.deployments import Seen
from tests.support.lakes import age_everything, local_path
from tests.support.spark import add_sqlite_catalog

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore:Delete operation did not match")]

OURS, JAVAS = "expiry_lake", "expiry_javas"
AT_ONCE = 4
NAMES = tuple(HISTORIES)
# The procedure decides as the library does; how it finds the files is its own, and it takes a second a table.
BY_PROCEDURE = ("deletion_vectors", "diverged_branch", "statistics", "tags")


@dataclass(frozen=True)
class ByJava:
    """What Java's expiry left of a table, and the files that it would delete."""

    snapshots: set[int]
    refs: dict[str, int]
    deleted: set[Path]


@dataclass
class Lake:
    """Every history in one catalog, as it was and as it is."""

    spark: SparkSession
    base: Path
    site: Site
    catalog: SqlCatalog
    rows: dict[str, dict[int, Rows]] = field(default_factory=dict)
    java: dict[str, ByJava] = field(default_factory=dict)
    procedure: dict[str, set[Path]] = field(default_factory=dict)
    before: dict[str, set[Path]] = field(default_factory=dict)
    ids: dict[str, list[int]] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        return self.catalog.load_table(f"histories.{name}")

    def roots(self, name: str) -> tuple[Path, ...]:
        """The directories of a table."""
        return local_path(self.table(name).location()), self.base / "elsewhere" / f"histories.{name}"

    def files(self, name: str) -> set[Path]:
        return files_below(*(root for root in self.roots(name) if root.exists()))

    def gone(self, name: str) -> set[Path]:
        return self.before[name] - self.files(name)

    def rows_by_spark(self, name: str) -> dict[int, Rows]:
        found = {}
        for number in sorted(snapshot_ids(self.table(name))):
            rows = self.spark.sql(f"SELECT * FROM {OURS}.histories.{name} VERSION AS OF {number}").collect()
            found[number] = tuple(sorted((tuple(row) for row in rows), key=repr))
        return found


@dataclass(frozen=True)
class Expired:
    """One expiry for the whole lake."""

    lake: Lake
    plan: Seen
    result: RunResult
    metadata: dict[str, str]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    base = tmp_path_factory.mktemp("histories")
    properties = add_sqlite_catalog(spark, OURS, base / "catalog.db", f"file://{base}/warehouse")
    add_sqlite_catalog(spark, JAVAS, base / "javas.db", f"file://{base}/nothing")
    catalog = SqlCatalog(OURS, **properties)
    catalog.create_namespace("histories")
    spark.sql(f"CREATE NAMESPACE {JAVAS}.histories")
    with Site(base, {OURS: properties}) as site:
        # What a table's own properties say counts where the section is silent.
        del site.sections["snapshot_expiry"]["retain_hours"]
        for name, found in HISTORIES.items():
            retain = {} if found.older_than_hours is None else {"retain_hours": found.older_than_hours}
            site.policies[f"{OURS}.histories.{name}"] = {"snapshot_expiry": {**retain, **found.policy}}
        lake = Lake(spark, base, site, catalog)
        for name, found in HISTORIES.items():
            found.build(Pen(spark, catalog, OURS, f"histories.{name}", base))
        now = int(time.time() * 1000)
        for name in NAMES:
            lake.ids[name] = backdate(lake.table(name), now)
        age_everything(base / "warehouse")
        age_everything(base / "elsewhere")
        for name in NAMES:
            lake.rows[name] = rows_of_all(lake.table(name))
            lake.before[name] = lake.files(name)
        lake.java = {name: by_java(lake, HISTORIES[name], now) for name in NAMES}
        lake.procedure = {name: by_procedure(lake, HISTORIES[name], now) for name in BY_PROCEDURE}
        for name in NAMES:
            for left in lake.files(name) - lake.before[name]:
                left.unlink()
        yield lake
    catalog.close()


def javas_table(lake: Lake, name: str, known_as: str) -> Any:
    """The table under a name in Java's own catalog."""
    spark: Any = lake.spark
    where = lake.table(name).metadata_location
    spark.sql(f"CALL {JAVAS}.system.register_table(table => 'histories.{known_as}', metadata_file => '{where}')")
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession, f"{JAVAS}.histories.{known_as}"
    )


def by_java(lake: Lake, found: History, now: int) -> ByJava:
    """Java's expiry of the table under its second name. Its files are only named to a list, and stay."""
    jvm: Any = lake.spark._jvm
    files = jvm.java.util.concurrent.ConcurrentLinkedQueue()
    expiry = _limited(javas_table(lake, found.name, found.name).expireSnapshots(), found, now)
    _compare_all(lake.spark, expiry)
    expiry.deleteWith(_into(jvm, files)).cleanExpiredFiles(True).commit()
    with SqlCatalog(JAVAS, uri=f"sqlite:///{lake.base}/javas.db") as catalog:
        left = catalog.load_table(f"histories.{found.name}")
    return ByJava(snapshot_ids(left), refs_of(left), {local_path(path) for path in files.toArray()})


def by_procedure(lake: Lake, found: History, now: int) -> set[Path]:
    """The files that the action behind the procedure would delete, of the table under a third name."""
    spark: Any = lake.spark
    actions = spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
    action = _limited(actions.expireSnapshots(javas_table(lake, found.name, f"{found.name}_again")), found, now)
    return {local_path(row["path"]) for row in DataFrame(action.expireFiles().toDF(), spark).collect()}


def _limited(expiry: Any, found: History, now: int) -> Any:
    if found.older_than_hours is not None:
        expiry = expiry.expireOlderThan(now - int(found.older_than_hours * HOUR_MS))
    return expiry if found.retain_last is None else expiry.retainLast(found.retain_last)


def _compare_all(spark: Any, expiry: Any) -> None:
    """Let it compare everything, as the procedure does: the shortcut leaves files for a later run."""
    choose = next(m for m in expiry.getClass().getDeclaredMethods() if m.getName() == "withIncrementalCleanup")
    choose.setAccessible(True)
    given = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, 1)
    given[0] = False
    choose.invoke(expiry, given)


def _into(jvm: Any, several: Any) -> Any:
    """A Java consumer that puts what it is given into a collection."""
    invoke, named = jvm.java.lang.invoke, jvm.java.lang.Class.forName
    shape = invoke.MethodType.methodType(jvm.java.lang.Boolean.TYPE, named("java.lang.Object"))
    add = invoke.MethodHandles.publicLookup().findVirtual(named("java.util.Collection"), "add", shape).bindTo(several)
    return invoke.MethodHandleProxies.asInterfaceInstance(named("java.util.function.Consumer"), add)


@pytest.fixture(scope="module")
def expired(lake: Lake) -> Expired:
    """One plan and one apply for all of them."""
    plan = lake.site.plan(EXPIRY)
    result = lake.site.apply(plan)
    return Expired(lake, plan, result, {name: lake.table(name).metadata_location for name in NAMES})


@pytest.fixture(scope="module")
def between(expired: Expired) -> tuple[Seen, set[Path]]:
    """Orphan cleanup after expiry and before deletion, without any grace, and what waits for that."""
    site = expired.lake.site
    return site.orphans_at_once(), site.pending()


@pytest.fixture(scope="module")
def deleted(expired: Expired, between: tuple[Seen, set[Path]]) -> RunResult:
    return expired.lake.site.delete_released()


def test_every_table_is_planned(expired: Expired) -> None:
    assert len(NAMES) >= 24
    assert {table.identifier: table.refusal for table in expired.plan.plan.tables if table.refusal} == {}
    assert (expired.result.status, expired.result.failed) == ("done", ())


@pytest.mark.parametrize("name", NAMES)
def test_the_same_snapshots_and_refs_are_left(expired: Expired, name: str) -> None:
    table, java = expired.lake.table(name), expired.lake.java[name]
    planned = expired.plan.table(f"{OURS}.histories.{name}")
    assert planned.changes["snapshots"] == len(expired.lake.ids[name]) - len(snapshot_ids(table))
    if name == "refs_by_the_policy":
        # `keep = ["release-*"]`
        first = expired.lake.ids[name][0]
        assert snapshot_ids(table) == java.snapshots | {first}
        assert refs_of(table) == java.refs | {"release-1": first}
        return
    assert snapshot_ids(table) == java.snapshots
    assert refs_of(table) == java.refs


def test_histories_are_worth_their_while(expired: Expired) -> None:
    """Some of everything goes, and some of everything stays."""
    changes = expired.plan.plan.totals()["changes"]
    assert changes["snapshots"] > 60
    assert changes["refs"] == 3
    kinds = expired.plan.plan.totals()["kinds"]
    assert {kind for kind in kinds if kinds[kind]["files"]} >= {
        "data", "delete", "manifest", "manifest_list", "statistics", "metadata",
    }  # fmt: skip
    assert sum(len(found.snapshots) for found in expired.lake.java.values()) > 40


def test_expiry_itself_touches_no_file(expired: Expired, between: tuple[Seen, set[Path]]) -> None:
    """Until deletion all is there; orphan cleanup knows what is released and leaves it."""
    plan, pending = between
    assert len(pending) > 150
    assert all(path.exists() for path in pending)
    assert not plan.orphans() & pending
    assert {plan.verdict(path) for path in pending} == {"pending"}
    # What expiry left behind for orphan cleanup: nothing but what the log of one table had dropped long ago.
    assert {path.parent.parent.name for path in plan.orphans()} <= {"short_log"}


@pytest.mark.parametrize("name", BY_PROCEDURE)
def test_java_agrees_with_itself(lake: Lake, name: str) -> None:
    assert lake.procedure[name] == lake.java[name].deleted


@pytest.mark.usefixtures("deleted")
@pytest.mark.parametrize("name", NAMES)
def test_the_same_files_go(expired: Expired, name: str) -> None:
    lake, history = expired.lake, HISTORIES[name]
    ours, java = lake.gone(name), {path for path in lake.java[name].deleted if path in lake.before[name]}
    trimmed = {path for path in ours - java if path.name.endswith(".metadata.json")}
    assert bool(trimmed) == history.trims
    assert ours - java == trimmed, "ours deletes what Java keeps"
    kept = java - ours
    elsewhere = {path for path in lake.java[name].deleted if path not in lake.before[name]}
    if history.keeps and name != "refs_by_the_policy":
        others = set().union(*(needed_by(lake.table(other)) for other in ("lender", "borrower") if other != name))
        assert kept | elsewhere, history.keeps
        assert kept | elsewhere <= others
        assert all(path.exists() for path in kept | elsewhere)
        return
    assert not elsewhere
    assert bool(kept) == bool(history.keeps), f"ours keeps {sorted(kept)}"


@pytest.mark.usefixtures("deleted")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_but_what_is_needed(expired: Expired, name: str) -> None:
    """By the tests' own walk. Metadata files that the log had dropped before are orphan cleanup's."""
    lake = expired.lake
    needed, left = needed_by(lake.table(name)), lake.files(name)
    assert {path for path in needed if not path.exists()} == set()
    borrowed = needed_by(lake.table("borrower")) if name == "lender" else set()
    rest = left - needed - borrowed
    assert {path for path in rest if not path.name.endswith(".metadata.json")} == set()
    assert bool(rest) == HISTORIES[name].trims


def test_deletion_takes_all_that_was_released(expired: Expired, deleted: RunResult) -> None:
    assert (deleted.status, deleted.failed, deleted.absent) == ("done", (), 0)
    assert not expired.lake.site.pending()


@pytest.mark.usefixtures("deleted")
def test_every_snapshot_that_is_left_shows_its_rows(expired: Expired) -> None:
    """To PyIceberg and to Spark, row for row as before."""
    lake = expired.lake
    with ThreadPoolExecutor(AT_ONCE) as pool:
        by_spark = dict(zip(NAMES, pool.map(lake.rows_by_spark, NAMES), strict=True))
    for name in NAMES:
        expected = {number: lake.rows[name][number] for number in snapshot_ids(lake.table(name))}
        assert rows_of_all(lake.table(name)) == expected, name
        assert by_spark[name] == expected, name


@pytest.mark.usefixtures("deleted")
def test_nothing_is_left_for_orphan_cleanup(expired: Expired) -> None:
    """Ours over the whole lake; Java's own over some."""
    lake = expired.lake
    for root in ("warehouse", "elsewhere"):
        age_everything(lake.base / root)
    plan = lake.site.orphans_at_once()
    assert {table.identifier: table.refusal for table in plan.plan.tables if table.refusal} == {}
    assert {path.parent.parent.name for path in plan.orphans()} <= {"short_log"}
    before = (datetime.now(UTC) - timedelta(days=2)).strftime("%Y-%m-%d %H:%M:%S")
    for name in ("position_deletes", "deletion_vectors", "statistics", "diverged_branch", "staged"):
        rows = lake.spark.sql(
            f"CALL {OURS}.system.remove_orphan_files(table => 'histories.{name}', "
            f"older_than => TIMESTAMP '{before}', dry_run => true)"
        ).collect()
        assert rows == [], name


@pytest.mark.usefixtures("deleted")
def test_nothing_is_left_to_do(expired: Expired) -> None:
    again = expired.lake.site.plan(EXPIRY)
    assert again.plan.totals()["changes"]["snapshots"] == 0
    assert expired.lake.site.warden.audit_verify()["ok"]


@pytest.mark.usefixtures("deleted")
def test_every_table_takes_new_commits_by_spark_and_by_pyiceberg(expired: Expired) -> None:
    lake = expired.lake
    for name in NAMES:
        columns = len(lake.table(name).schema().fields)
        before = lake.spark.table(f"{OURS}.histories.{name}").count()
        values = ", ".join(["900", "'a'", "'x'"][:columns])
        lake.spark.sql(f"INSERT INTO {OURS}.histories.{name} VALUES ({values})")
        table, more = lake.table(name), 0
        assert expired.metadata[name] in [entry.metadata_file for entry in table.metadata.metadata_log], name
        if table.format_version < 3 and columns == 2:  # PyIceberg does not write version 3
            table.append(arrow(901, 2))
            more = 2
        assert lake.spark.table(f"{OURS}.histories.{name}").count() == before + 1 + more, name
