"""`lakewarden.lineage(…)` for users' own writers: PyIceberg's commits, PySpark's writers, a session's SQL."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakewarden
from lakewarden import writers
from lakewarden.model.errors import ArgumentError, LineageError
from lakewarden.writers import OPTION, SETTING, version
from tests.support.configuration import write_toml
from tests.support.lakes import small_lake
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def said() -> writers.Lineage:
    return lakewarden.lineage("ingest-1", invocation="run-7", commit_hash="a1b2c3")


def test_a_writer_says_who_where_which_version_and_why(said: writers.Lineage) -> None:
    found = said.properties(inputs=[4727, 4728], rows=12_000, size=24_831_044)
    assert found.pop("writer.host")
    assert found == {
        "writer.id": "ingest-1",
        "writer.commit_hash": "a1b2c3",
        "writer.invocation_id": "run-7",
        "trigger.type": "schedule",
        "input.snapshot_ids": "4727,4728",
        "input.row_count": "12000",
        "input.bytes_compressed": "24831044",
    }


def test_who_works_by_hand_is_named_and_two_invocations_are_two() -> None:
    one, two = (lakewarden.lineage("fix", trigger="manual").properties() for _ in range(2))
    assert one["trigger.operator"]
    assert one["writer.invocation_id"] != two["writer.invocation_id"]


def test_a_program_that_was_changed_since_its_commit_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=ana", "-c", "user.email=ana@example.com"]
        return subprocess.run(["git", "-C", tmp_path, *who, *words], capture_output=True, text=True, check=True).stdout

    def found() -> str:
        version.version_of_program.cache_clear()
        return lakewarden.lineage("ingest-1").properties().get("writer.commit_hash", "")

    for name in version.COMMIT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    program = tmp_path / "ingest.py"
    monkeypatch.setattr(sys, "argv", [str(program)])
    program.write_text("one")
    assert found() == ""
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    git("tag", "v1")
    head = git("rev-parse", "HEAD").strip()
    assert found() == head
    (tmp_path / "notes.txt").write_text("what git does not know is no part of the program")
    assert found() == head
    program.write_text("two")
    assert found() == f"{head}-dirty"
    version.version_of_program.cache_clear()


def test_a_commit_of_pyiceberg_has_the_keys_and_its_inputs(tmp_path: Path, said: writers.Lineage) -> None:
    lake = small_lake(tmp_path)
    catalog = lake.catalog()
    table = catalog.load_table(lake.tables[0])
    rows = table.scan().to_arrow().slice(0, 1)
    table.append(rows, snapshot_properties=said.properties(table=table, inputs=[table], rows=1))
    summary: Any = table.refresh().metadata.snapshots[-1].summary
    assert summary["writer.id"] == "ingest-1"
    assert summary["input.snapshot_ids"] == str(table.metadata.snapshots[-1].parent_snapshot_id)
    with table.transaction() as change:
        change.set_properties({"lineage.required-keys.overwrite": "trigger.ticket"})
    count = len(table.refresh().metadata.snapshots)
    with pytest.raises(LineageError, match=r"trigger\.ticket is missing"):
        table.overwrite(rows, snapshot_properties=said.properties("overwrite", table))
    assert len(table.refresh().metadata.snapshots) == count
    catalog.close()


def test_a_writer_of_pyspark_is_given_every_key(said: writers.Lineage) -> None:
    class Recorded:
        options: dict[str, str]

        def __init__(self) -> None:
            self.options = {}

        def option(self, name: str, value: str) -> Recorded:
            self.options[name] = value
            return self

    writer = said.on(Recorded(), inputs=[1])
    assert writer.options == {OPTION + name: value for name, value in said.properties(inputs=[1]).items()}


def test_a_session_is_as_before_whatever_happened_meanwhile(said: writers.Lineage) -> None:
    class SparkSession:
        def __init__(self) -> None:
            self.settings = {f"{SETTING}writer.id": "somebody"}
            self.conf = self

        def get(self, name: str, otherwise: str | None) -> str | None:
            return self.settings.get(name, otherwise)

        def set(self, name: str, value: str) -> None:
            self.settings[name] = value

        def unset(self, name: str) -> None:
            self.settings.pop(name, None)

    session = SparkSession()
    meanwhile = {}
    with contextlib.suppress(ZeroDivisionError), said.session(session, "append"):
        meanwhile = dict(session.settings)
        raise ZeroDivisionError
    signed = {name: value for name, value in meanwhile.items() if name.startswith(SETTING)}
    assert signed == {SETTING + name: value for name, value in said.properties().items()}
    assert session.settings == {f"{SETTING}writer.id": "somebody"}


BAD: list[dict[str, Any]] = [
    {"inputs": ["x"]}, {"inputs": [True]}, {"inputs": [2**63]}, {"table": 7}, {"table": pa.table({})}, {"table": "a.b.c"},
    {"rows": -1}, {"rows": "many"}, {"size": 1.5}, {"size": True}, {"operation": "compaction"}, {"operation": None},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_what_a_commit_cannot_say_is_named(said: writers.Lineage, bad: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as raised:
        said.properties(**bad)
    assert raised.value.argument == next(iter(bad))


@pytest.mark.parametrize(
    "bad",
    [{"writer": None}, {"writer": " "}, {"writer": 7}, {"trigger": "by-hand"}, {"operator": 5}, {"ticket": ["x"]},
     {"invocation": ""}, {"commit_hash": 1}, {"requirements": {}}, {"other": 1}],
    ids=str,
)  # fmt: skip
def test_what_a_writer_cannot_say_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(bad))):
        lakewarden.lineage(**{"writer": "ingest", **bad})


def test_a_summary_is_compared_with_what_a_table_says() -> None:
    lakewarden.validate_lineage({"writer.id": "a"}, {"lineage.required-keys": "writer.id"})
    with pytest.raises(LineageError, match=r"team is missing"):
        lakewarden.validate_lineage({"writer.id": "a"}, {"lineage.required-keys": "writer.id,team"})
    for bad in ((None, {}), ({}, None)):
        with pytest.raises(ArgumentError):
            lakewarden.validate_lineage(*bad)  # type: ignore[arg-type]


def test_a_configuration_says_what_its_tables_require_and_knows_them_by_name(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake")
    name = f"{lake.name}.{lake.tables[0]}"
    config = write_toml(
        tmp_path / "lakewarden.toml",
        {
            "state": {"location": f"file://{tmp_path}/state"},
            "catalogs": {lake.name: {"format": "iceberg", "properties": lake.properties}},
            "lineage": {"required_keys": ["writer.id"]},
            "overrides": [{"match": name, "lineage": {"required_keys": ["writer.id", "team"]}}],
        },
    )
    said = lakewarden.lineage("ingest", config=config)
    with pytest.raises(LineageError, match=r"team is missing"):
        said.properties(table=name)
    with pytest.raises(ArgumentError) as raised:
        said.properties(inputs=[f"{lake.name}.sales.no_such"])
    assert raised.value.argument == "inputs"
    catalog = lake.catalog()
    table = catalog.load_table(lake.tables[0])
    with lakewarden.open(config) as warden:
        found = warden.lineage("ingest").properties(inputs=[name, table.scan(), table])
    current = table.current_snapshot()
    assert current is not None
    assert found["input.snapshot_ids"] == str(current.snapshot_id)
    assert "team" not in found
    catalog.close()


def test_commits_of_pyspark_and_of_its_sql_have_the_keys(
    spark: SparkSession, tmp_path: Path, said: writers.Lineage
) -> None:
    add_sqlite_catalog(spark, "writers", tmp_path / "catalog.db", f"file://{tmp_path}/lake")
    spark.sql("CREATE NAMESPACE writers.shop")
    name = "writers.shop.orders"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT) USING iceberg "
        "TBLPROPERTIES ('lineage.required-keys.overwrite' = 'trigger.ticket')"
    )
    said.on(spark.range(3).writeTo(name), inputs=[4727]).append()
    with said.session(spark, "append", name, rows=1):
        spark.sql(f"INSERT INTO {name} VALUES (7)")
    spark.sql(f"INSERT INTO {name} VALUES (8)")
    with pytest.raises(LineageError), said.session(spark, "overwrite", name):
        spark.sql(f"INSERT OVERWRITE {name} VALUES (9)")
    found = [row.summary for row in spark.sql(f"SELECT summary FROM {name}.snapshots ORDER BY committed_at").collect()]
    assert [summary.get("writer.id") for summary in found] == ["ingest-1", "ingest-1", None]
    assert [summary.get("input.snapshot_ids") for summary in found] == ["4727", None, None]
    assert [summary.get("input.row_count") for summary in found] == [None, "1", None]
    assert spark.table(name).count() == 5


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> str:
    catalog = f"inputs{uuid.uuid4().hex[:8]}"  # a name serves once in a session
    add_sqlite_catalog(spark, catalog, tmp_path / "catalog.db", f"file://{tmp_path}/lake")
    spark.sql(f"CREATE NAMESPACE {catalog}.shop")
    for name in ("a", "b", "empty"):
        spark.sql(f"CREATE TABLE {catalog}.shop.{name} (id BIGINT) USING iceberg")
    for name in ("a", "b", "a"):
        spark.range(2).writeTo(f"{catalog}.shop.{name}").append()
    return f"{catalog}.shop"


def ids_of(spark: SparkSession, name: str) -> list[int]:
    return [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()]


def last_of(spark: SparkSession, name: str) -> dict[str, str]:
    found = spark.sql(f"SELECT summary FROM {name}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()
    return dict(found[0].summary)


def test_what_a_frame_reads_is_found_and_what_is_named_is_looked_up(
    spark: SparkSession, shop: str, said: writers.Lineage
) -> None:
    old, new = ids_of(spark, f"{shop}.a")
    (other,) = ids_of(spark, f"{shop}.b")
    frame = spark.table(f"{shop}.b").union(spark.sql(f"SELECT * FROM {shop}.a VERSION AS OF {old}"))
    said.on(frame.writeTo(f"{shop}.empty"), table=f"{shop}.empty").append()
    assert last_of(spark, f"{shop}.empty")["input.snapshot_ids"] == f"{other},{old}"
    inner = spark.sql(f"SELECT * FROM {shop}.a WHERE id IN (SELECT id FROM {shop}.b)").cache()
    said.on(inner.write.format("iceberg").mode("append")).save(f"{shop}.empty")
    assert last_of(spark, f"{shop}.empty")["input.snapshot_ids"] == f"{new},{other}"
    said.on(spark.range(1).writeTo(f"{shop}.empty")).append()
    assert "input.snapshot_ids" not in last_of(spark, f"{shop}.empty")
    with said.session(spark, "append", f"{shop}.empty", inputs=[f"{shop}.a", spark.table(f"{shop}.b")]):
        spark.sql(f"INSERT INTO {shop}.empty SELECT a.id FROM {shop}.a a JOIN {shop}.b b ON a.id = b.id")
    assert last_of(spark, f"{shop}.empty")["input.snapshot_ids"] == f"{new},{other}"
    for bad in ({"table": f"{shop}.no_such"}, {"inputs": [f"{shop}.no_such"]}):
        with pytest.raises(ArgumentError, match=r"shop\.no_such"), said.session(spark, **bad):
            pass


def test_a_block_says_its_own_and_two_threads_do_not_sign_for_each_other(
    spark: SparkSession, shop: str, said: writers.Lineage
) -> None:
    fix = lakewarden.lineage("fix", trigger="incident-response", ticket="OPS-7", commit_hash="f1")
    refused: list[Exception] = []

    def elsewhere() -> None:
        try:
            with said.session(spark):
                pass
        except ArgumentError as error:
            refused.append(error)

    with fix.session(spark, inputs=[1], rows=5):
        with said.session(spark):
            spark.sql(f"INSERT INTO {shop}.a VALUES (7)")
        inner = last_of(spark, f"{shop}.a")
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with said.session(spark.newSession()):
            pass
        spark.sql(f"INSERT INTO {shop}.a VALUES (8)")
    outer = last_of(spark, f"{shop}.a")
    spark.sql(f"INSERT INTO {shop}.a VALUES (9)")
    assert {name for name in inner if name.startswith(("trigger.", "input."))} == {"trigger.type"}
    assert inner["writer.id"] == "ingest-1"
    assert (outer["writer.id"], outer["trigger.ticket"], outer["input.row_count"]) == ("fix", "OPS-7", "5")
    assert len(refused) == 1
    assert "newSession" in str(refused[0])
    assert not {"writer.id", "trigger.ticket"} & last_of(spark, f"{shop}.a").keys()
    with said.session(spark):
        pass
