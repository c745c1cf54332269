"""How many tasks work is cut into: by the cores of this machine, or on a cluster by the work itself."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakewarden.pipeline.active import BY_WORK, SHUFFLE
from lakewarden.pipeline.read import frames

ROWS = pa.table({"uri": pa.array([f"s3://lake/{n}" for n in range(300)])})


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the executors were on other machines, and none had come yet."""
    monkeypatch.setattr(frames, "is_local", lambda _: False)


def test_within_this_machine_each_core_has_a_slice(spark: SparkSession) -> None:
    cores = spark.sparkContext.defaultParallelism
    assert frames.spread(spark, ROWS, 100).rdd.getNumPartitions() == cores


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(("wanted", "tasks"), [(100, 100), (0, 2), (1000, 300)])
def test_on_a_cluster_the_work_decides(spark: SparkSession, wanted: int, tasks: int) -> None:
    found = frames.spread(spark.newSession(), ROWS, wanted)
    assert found.rdd.getNumPartitions() == tasks
    assert sorted(row["uri"] for row in found.collect()) == sorted(ROWS["uri"].to_pylist())
    assert "Exchange" not in found._jdf.queryExecution().toString(), "a shuffle is lost with its executor"


@pytest.mark.usefixtures("elsewhere")
def test_manifests_are_dealt_by_their_bytes(spark: SparkSession) -> None:
    manifests = ROWS.append_column("length", pa.array([1 << 20] * 300, pa.int64()))
    assert frames.dealt(spark.newSession(), manifests).rdd.getNumPartitions() == 300 // 8


@pytest.mark.usefixtures("elsewhere")
def test_a_join_is_cut_by_its_rows_unless_the_user_said_how(spark: SparkSession) -> None:
    ours = spark.newSession()
    ours.conf.set(SHUFFLE, "2")
    frames.shuffled_by_work(ours, 50_000_000)
    assert ours.conf.get(SHUFFLE) == "2", "the user's own number"
    ours.conf.set(BY_WORK, "4")
    frames.shuffled_by_work(ours, 50_000_000)
    assert ours.conf.get(SHUFFLE) == "500"
    frames.shuffled_by_work(ours, 1_000)
    assert ours.conf.get(SHUFFLE) == "4"


def test_a_join_within_this_machine_is_cut_as_before(spark: SparkSession) -> None:
    ours = spark.newSession()
    ours.conf.set(SHUFFLE, "2")
    ours.conf.set(BY_WORK, "2")
    frames.shuffled_by_work(ours, 50_000_000)
    assert ours.conf.get(SHUFFLE) == "2"
