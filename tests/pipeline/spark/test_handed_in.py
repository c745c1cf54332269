"""A session that was handed in is used and left as it was; without one, nobody else's session is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.core.rdd import RDD
from pyspark.sql import SparkSession

import lakewarden
from lakewarden.model.errors import ForeignSessionError
from lakewarden.pipeline.spark import session as sessions
from tests.support.worlds import JOB, World

OWN = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "123",
}


@pytest.fixture
def theirs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The session of a notebook: Lakewarden did not start it, and it has settings of its own."""
    monkeypatch.setattr(sessions, "_started", sessions._Started())
    before = {key: spark.conf.get(key) for key in OWN}
    for key, value in OWN.items():
        spark.conf.set(key, value)
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.sparkContext.setLogLevel("OFF")
    for key, value in before.items():
        spark.conf.set(key, value)


def everything_of(session: SparkSession) -> dict[str, Any]:
    """Every setting of a session and of its context, and how PySpark finds both."""
    context = session.sparkContext
    java: Any = session._jvm
    return {
        "session": dict(session.conf.getAll),
        "context": dict(context.getConf().getAll()),
        "python": context.pythonExec,
        "environment": dict(context.environment),
        "log level": java.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString(),
        "active": SparkSession.getActiveSession()._jsparkSession.sessionUUID(),  # type: ignore[union-attr]
        "active in Python": SparkSession._activeSession,
        "default": SparkSession._instantiatedSession,
        "RDDs become DataFrames of": RDD.__dict__["toDF"],
        "job group": context.getLocalProperty("spark.jobGroup.id"),
    }


def test_a_session_that_is_handed_in_is_left_as_it_was(theirs: SparkSession, world: World) -> None:
    theirs.range(1).collect()
    mine: Any = theirs.sparkContext.parallelize([(1,)])
    whose = mine.toDF(["n"]).sparkSession
    before = everything_of(theirs)
    with lakewarden.open(str(world.config), spark=theirs) as warden:
        result = warden.plan(JOB)
        planted = sum(len(paths) for paths in world.orphans.values())
        assert result.plan.totals()["verdicts"]["orphan"]["files"] == planted
        run = warden.apply(result)
    assert run.deleted.files == planted
    assert everything_of(theirs) == before
    # The notebook goes on with its own work, in its own time zone.
    assert theirs.sql("select current_timezone()").first()[0] == "Asia/Tokyo"  # type: ignore[index]
    assert mine.toDF(["n"]).sparkSession is whose


def test_without_it_a_foreign_session_is_not_touched(theirs: SparkSession, world: World) -> None:
    before = everything_of(theirs)
    with (
        lakewarden.open(str(world.config)) as warden,
        pytest.raises(ForeignSessionError, match="was not handed") as refused,
    ):
        warden.plan(JOB)
    assert (refused.value.code, int(refused.value.exit_code)) == ("LW-SPARK-004", 64)
    assert everything_of(theirs) == before


def test_another_master_than_the_one_that_runs_is_refused(spark: SparkSession) -> None:
    with pytest.raises(
        ForeignSessionError, match=r"local\[2\] in this process, and this configuration asks for spark://"
    ):
        sessions.spark_session("spark://127.0.0.1:1", {}, "other")


@pytest.mark.parametrize(
    ("conf", "master", "named", "python"),
    [
        ({"spark.pyspark.python": "./env/bin/python"}, "yarn", "from-environment", "./env/bin/python"),
        ({"spark.pyspark.python": "/opt/python"}, "local[2]", None, "/opt/python"),
        ({}, "yarn", "from-environment", "from-environment"),
        ({}, "local[2]", "from-environment", None),
    ],
)
def test_the_python_of_workers(
    conf: dict[str, str], master: str, named: str | None, python: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    assert sessions._python_of_workers(conf, master) == (python or sys.executable)


def test_of_the_configuration_a_session_beside_has_what_can_be_set(theirs: SparkSession) -> None:
    ours = sessions.session_beside(theirs, {"spark.sql.shuffle.partitions": "3", "spark.driver.memory": "9g"})
    assert ours.conf.get("spark.sql.shuffle.partitions") == "3"
    assert ours.conf.get("spark.driver.memory") != "9g"
    assert ours.conf.get("spark.sql.session.timeZone") == "UTC"
