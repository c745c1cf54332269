"""`lakewarden.lineage(…)` for users' own writers: PyIceberg's commits, PySpark's writers, a session's SQL."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakewarden
from lakewarden import writers
from lakewarden.model.errors import ArgumentError, LineageError
from lakewarden.writers import OPTION, SETTING
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
    class Session:
        def __init__(self) -> None:
            self.settings = {f"{SETTING}writer.id": "somebody"}
            self.conf = self

        def get(self, name: str, otherwise: str | None) -> str | None:
            return self.settings.get(name, otherwise)

        def set(self, name: str, value: str) -> None:
            self.settings[name] = value

        def unset(self, name: str) -> None:
            del self.settings[name]

    session = Session()
    meanwhile = {}
    with contextlib.suppress(ZeroDivisionError), said.session(session, "append"):
        meanwhile = dict(session.settings)
        raise ZeroDivisionError
    assert meanwhile == {SETTING + name: value for name, value in said.properties().items()}
    assert session.settings == {f"{SETTING}writer.id": "somebody"}


@pytest.mark.parametrize("bad", [{"inputs": ["x"]}, {"inputs": [True]}, {"table": 7}, {"table": pa.table({})}])
def test_what_is_no_input_and_no_table_is_named(said: writers.Lineage, bad: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        said.properties(**bad)


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
