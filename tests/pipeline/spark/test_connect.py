"""Spark Connect is refused by its own code, by whatever way it is asked for, before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewarden
from lakewarden.model.errors import ArgumentError, SparkConnectError
from lakewarden.pipeline.spark.connect import refuse_connect, refuse_connected


class SparkSession:
    """Stands for a session of Spark Connect, which needs packages that nobody has to install for this test."""

    __module__ = "pyspark.sql.connect.session"


class Vendors(SparkSession):
    """A vendor's own kind of such a session."""


@pytest.mark.parametrize(
    ("master", "conf", "env", "named"),
    [
        ("sc://host:15002", {}, {}, "sc://host:15002"),
        ("local[2]", {"spark.remote": "sc://host"}, {}, "spark.remote"),
        ("local[2]", {}, {"SPARK_REMOTE": "sc://host"}, "SPARK_REMOTE"),
        ("local[2]", {}, {"SPARK_CONNECT_MODE_ENABLED": "1"}, "SPARK_CONNECT_MODE_ENABLED"),
    ],
)
def test_each_way_of_asking_is_named(master: str, conf: dict[str, str], env: dict[str, str], named: str) -> None:
    with pytest.raises(SparkConnectError, match=named) as refused:
        refuse_connect(master, conf, env)
    assert (refused.value.code, int(refused.value.exit_code)) == ("LW-SPARK-003", 64)


@pytest.mark.parametrize("master", ["local", "local[*]", "spark://host:7077", "yarn", "k8s://https://host:443"])
def test_classic_masters_pass(master: str) -> None:
    refuse_connect(master, {"spark.driver.memory": "2g"}, {})


@pytest.mark.parametrize("session", [SparkSession(), Vendors()])
def test_a_session_of_spark_connect_is_refused_when_it_is_handed_in(session: object, tmp_path: Path) -> None:
    config = tmp_path / "lakewarden.toml"
    config.write_text(f'[state]\nlocation = "file://{tmp_path}/state"\n', encoding="utf-8")
    with pytest.raises(SparkConnectError, match="handed in"):
        lakewarden.open(str(config), spark=session)


def test_a_classic_session_is_none_of_spark_connect() -> None:
    refuse_connected(object())


@pytest.mark.parametrize("nonsense", ["local[2]", 7, object()])
def test_what_is_no_session_is_refused_as_an_argument(nonsense: object) -> None:
    with pytest.raises(ArgumentError, match="a Spark session") as refused:
        lakewarden.open(spark=nonsense)
    assert refused.value.argument == "spark"
