"""PyIceberg and Spark as clients of the gateway, in front of Apache's own REST catalog."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import BadRequestError, NoSuchTableError

import lakewarden
from tests.docs.pages import DOCS, text_of
from tests.support.gateways import RunningGateway, gateway
from tests.support.rest import RestJvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
SAID = lakewarden.lineage("ingest-1", invocation="run-7", commit_hash="a1b2c3")


@pytest.fixture(scope="module")
def upstream(rest_jvm: RestJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    server = rest_jvm.serve({"warehouse": f"file://{warehouse}"})
    yield server.uri
    server.stop()


@pytest.fixture(scope="module")
def running(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with gateway(tmp_path_factory.mktemp("gateway"), upstream) as found:
        yield found


@pytest.fixture(scope="module")
def catalog(running: RunningGateway) -> Catalog:
    found = load_catalog("lake", type="rest", uri=running.uri)
    found.create_namespace("db")
    found.create_namespace(("db", "inner space"))
    return found


@pytest.mark.parametrize("namespace", [("db",), ("db", "inner space")], ids=["plain", "nested"])
def test_pyiceberg_is_told_which_keys_are_missing_and_commits_with_them(
    catalog: Catalog, namespace: tuple[str, ...]
) -> None:
    table = catalog.create_table((*namespace, "orders"), ROWS.schema)
    with pytest.raises(BadRequestError, match=r"LW-LINEAGE-001 .*writer\.id is missing; trigger\.type is missing"):
        table.append(ROWS)
    assert table.refresh().current_snapshot() is None
    table.append(ROWS, snapshot_properties=SAID.properties(table=table))
    assert table.refresh().scan().to_arrow().num_rows == 3
    with pytest.raises(BadRequestError, match=r"trigger\.ticket is missing"):
        table.overwrite(ROWS, snapshot_properties=SAID.properties("append", table))
    assert table.refresh().scan().to_arrow().num_rows == 3


def test_the_rules_of_the_table_count_and_a_commit_cannot_lift_them_for_itself(catalog: Catalog) -> None:
    table = catalog.create_table("db.strict", ROWS.schema, properties={"lineage.required-keys": "team"})
    lifting, tightening = table.transaction(), table.transaction()
    lifting.set_properties({"lineage.required-keys": ""})
    lifting.append(ROWS)
    with pytest.raises(BadRequestError, match=r"team is missing"):
        lifting.commit_transaction()
    tightening.set_properties({"lineage.required-keys": "project"})
    tightening.append(ROWS, snapshot_properties={"team": "lake"})
    with pytest.raises(BadRequestError, match=r"project is missing"):
        tightening.commit_transaction()
    table.append(ROWS, snapshot_properties={"team": "lake"})
    with table.transaction() as change:
        change.set_properties({"lineage.required-keys": ""})
    table.append(ROWS)
    assert table.refresh().scan().to_arrow().num_rows == 6


def test_a_staged_create_is_judged_by_what_the_new_table_requires(catalog: Catalog) -> None:
    own = {"lineage.required-keys": "team"}
    with (
        pytest.raises(BadRequestError, match=r"team is missing"),
        catalog.create_table_transaction("db.staged", ROWS.schema, properties=own) as change,
    ):
        change.append(ROWS, snapshot_properties=SAID.properties())
    assert not catalog.table_exists("db.staged")
    with catalog.create_table_transaction("db.staged", ROWS.schema, properties=own) as change:
        change.append(ROWS, snapshot_properties={**SAID.properties(), "team": "lake"})
    assert catalog.load_table("db.staged").scan().to_arrow().num_rows == 3


def test_what_the_catalog_refuses_comes_back_in_its_own_words(catalog: Catalog) -> None:
    with pytest.raises(NoSuchTableError, match=r"Table does not exist: db\.no_such"):
        catalog.load_table("db.no_such")
    assert not catalog.namespace_exists("nowhere")
    catalog.create_table("db.short_lived", ROWS.schema)
    catalog.drop_table("db.short_lived")
    assert not catalog.table_exists("db.short_lived")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, running: RunningGateway, catalog: Catalog) -> str:
    for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": running.uri}.items():
        spark.conf.set(f"spark.sql.catalog.gated{key}", value)
    spark.conf.set("spark.sql.catalog.gated.cache-enabled", "false")
    return "gated"


def test_spark_is_told_which_keys_are_missing_and_commits_with_them(spark: SparkSession, lake: str) -> None:
    name = f"{lake}.db.events"
    spark.sql(f"CREATE TABLE {name} (id bigint) USING iceberg")
    with pytest.raises(Exception, match=r"writer\.id is missing; trigger\.type is missing"):
        spark.sql(f"INSERT INTO {name} VALUES (1)")
    frame = spark.createDataFrame([(1,)], "id long")
    with pytest.raises(Exception, match=r"LW-LINEAGE-001"):
        frame.writeTo(name).append()
    SAID.on(frame.writeTo(name)).append()
    with SAID.session(spark, table=name):
        spark.sql(f"INSERT INTO {name} VALUES (2)")
    assert [row.id for row in spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()] == [1, 2]
    summaries: list[Any] = spark.sql(f"SELECT summary FROM {name}.snapshots").collect()
    assert all(row.summary["writer.id"] == "ingest-1" for row in summaries)


def test_spark_creates_a_table_from_a_query_only_with_the_keys(spark: SparkSession, lake: str) -> None:
    with pytest.raises(Exception, match=r"writer\.id is missing"):
        spark.sql(f"CREATE TABLE {lake}.db.copied USING iceberg AS SELECT 1 AS id")
    with SAID.session(spark):
        spark.sql(f"CREATE TABLE {lake}.db.copied USING iceberg AS SELECT 1 AS id")
    assert spark.sql(f"SELECT id FROM {lake}.db.copied").collect()[0].id == 1


def test_a_refused_append_of_sparks_leaves_no_file_behind(spark: SparkSession, lake: str, catalog: Catalog) -> None:
    spark.sql(f"CREATE TABLE {lake}.db.clean (id bigint) USING iceberg")
    with pytest.raises(Exception, match=r"writer\.id is missing"):
        spark.sql(f"INSERT INTO {lake}.db.clean VALUES (1)")
    place = Path(catalog.load_table("db.clean").location().removeprefix("file:"))
    assert [one.name for one in place.rglob("*.parquet")] == []


def test_a_signal_ends_the_gateway_after_what_it_began(upstream: str, tmp_path: Path) -> None:
    with gateway(tmp_path, upstream) as running:
        assert load_catalog("x", type="rest", uri=running.uri).list_namespaces() is not None
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
    assert "Traceback" not in running.log.read_text()


def test_what_a_writer_sees_is_what_the_page_shows(
    spark: SparkSession, upstream: str, catalog: Catalog, tmp_path: Path
) -> None:
    page = text_of(DOCS / "how-to" / "gateway.md")
    blocks = [block.strip() for block in re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    settings = next(block for block in re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    rules = settings[settings.index("[lineage]") :]
    catalog.create_table("db.clicks", ROWS.schema)
    with gateway(tmp_path, upstream, rules, catalog="prod") as running:
        for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": running.uri}.items():
            spark.conf.set(f"spark.sql.catalog.prod{key}", value)
        with pytest.raises(Exception, match=r"LW-LINEAGE-001") as by_spark:
            spark.sql("INSERT INTO prod.db.clicks VALUES (1, 'a')")
        table = load_catalog("prod", type="rest", uri=running.uri).load_table("db.clicks")
        with pytest.raises(BadRequestError) as by_pyiceberg:
            table.append(ROWS)
    said = [
        *str(by_spark.value).splitlines(),
        f"{by_pyiceberg.type.__module__}.{by_pyiceberg.typename}: {by_pyiceberg.value}",
    ]
    shown = [block for block in blocks if "LW-LINEAGE-001" in block]
    assert len(shown) == 2
    assert [block for block in shown if block not in (line.removeprefix(": ") for line in said)] == [], said
    config = tmp_path / "page.toml"
    config.write_text(settings)
    command = [sys.executable, "-m", "lakewarden", "gateway", "--config", str(config), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        process.terminate()
        ended, _ = process.communicate(timeout=60)
    assert ended == "Stopped: every request that was begun was answered.\n"
    assert re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8788", line) in blocks
