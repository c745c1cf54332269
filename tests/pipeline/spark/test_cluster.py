"""Plans on a cluster whose workers share nothing with the driver: neither their Python nor their disks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewarden.storage.stores import Stores
from tests.steps.apply.s3.conftest import S3World, _world
from tests.support.buckets import Bucket
from tests.support.cluster import CHECKOUT, HOST, Cluster, another_environment, free_port, standalone, why_no_namespace
from tests.support.configuration import write_toml
from tests.support.fault_proxy import Answer, FaultProxy, Request, Send, fault_proxy
from tests.support.lakes import small_lake

pytestmark = [pytest.mark.usefixtures("java"), pytest.mark.timeout(600)]
TABLES = ("s3", "s3", "s3")
PYTHON = "spark.pyspark.python"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if (why := why_no_namespace()) is not None:
        pytest.skip(why)
    base = tmp_path_factory.mktemp("cluster")
    hidden = [
        CHECKOUT,
        *([Path(sys.prefix)] if not Path(sys.prefix).is_relative_to(CHECKOUT) else []),
        driver_place(base),
    ]
    with standalone(base / "workers", another_environment(base), hidden) as found:
        yield found


def driver_place(base: Path) -> Path:
    """Where the driver's own files lie, which no worker sees."""
    place = base.parent / "driver"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    with fault_proxy(bucket.server.endpoint) as found:
        yield found


@dataclass(frozen=True)
class Driver:
    """A deployment on S3 whose plans run on the cluster, or on this machine."""

    world: S3World
    cluster: Cluster

    def config(self, name: str, **spark: Any) -> str:
        """The configuration of the world with another [spark] section; `beside` are more catalogs, `sections` other ones."""
        import tomllib

        document = tomllib.loads(self.world.config.read_text(encoding="utf-8"))
        document["spark"] = {"master": self.cluster.master, "conf": self.conf(), **spark}
        document["catalogs"].update(document["spark"].pop("beside", {}))
        document.update(document["spark"].pop("sections", {}))
        path = self.world.base / f"{name}.toml"
        write_toml(path, document)
        return str(path)

    def conf(self, **more: str) -> dict[str, str]:
        return {
            "spark.executor.memory": "512m",
            "spark.driver.host": HOST,
            PYTHON: str(self.cluster.environment.python),
            # A lost executor must not cost the test half a minute.
            "spark.task.maxFailures": "8",
            **more,
        }

    def plan(self, config: str, *words: str) -> dict[str, Any]:
        short = [word for uuid in self.world.uuids() for word in ("--unsafe-short-grace", uuid)]
        return self.lakewarden("plan", "orphans", "--config", config, *short, *words)

    def lakewarden(self, *words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "lakewarden", *words, "--output", "json"]
        done = subprocess.run(
            command, cwd=self.world.base, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def judged(self, plan: dict[str, Any]) -> set[tuple[str, str, str]]:
        rows = self.world.warden.plan_rows(plan["path"])
        return {(row["table"], row["uri"], row["verdict"]) for row in rows}


def environment() -> dict[str, str]:
    """Of a driver that says by its configuration alone which Python the workers run."""
    return {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "SPARK_REMOTE")}


@pytest.fixture
def driver(cluster: Cluster, bucket: Bucket, proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory) -> Driver:
    place = driver_place(tmp_path_factory.mktemp("place"))
    world = _world(bucket, place / f"world-{bucket.name}", TABLES, True, proxy.endpoint, rate_limit_ms=0)
    return Driver(world, cluster)


def killing(cluster: Cluster, killed: list[int]) -> Callable[[Request, Send], Answer]:
    """Every executor dies as soon as the first file of a plan is in the store, before its task can tell."""

    def fault(request: Request, send: Send) -> Answer:
        answer = send(request)
        for executor in cluster.executors():
            executor.kill()
            killed.append(executor.pid)
        return answer

    return fault


def test_a_plan_is_the_same_as_on_one_machine_though_executors_die(driver: Driver, proxy: FaultProxy) -> None:
    here = driver.plan(driver.config("here", master="local[2]", conf={}))
    killed: list[int] = []
    proxy.on(lambda asked: asked.method == "PUT" and "/files/part-" in asked.path, killing(driver.cluster, killed))
    there = driver.plan(driver.config("there"))
    assert killed, "an executor was killed in the middle"
    assert driver.judged(there) == driver.judged(here)
    assert there["totals"] == here["totals"]
    orphans = {uri for _, uri, verdict in driver.judged(there) if verdict == "orphan"}
    assert orphans == set(driver.world.planted_uris)
    assert rows_in(driver, there["path"]) == len(driver.judged(there)), "the lost task's file has no row left"

    bucket = driver.world.bucket
    assert bucket is not None
    before = bucket.keys("wh/")
    applied = driver.lakewarden("apply", there["path"], "--yes", "--config", driver.config("there"))
    assert (applied["status"], applied["deleted"]["files"]) == ("done", len(orphans))
    assert before - bucket.keys("wh/") == {uri.split("/", 3)[3] for uri in orphans}
    catalog = driver.world.catalog()
    for name in driver.world.lake.tables:
        assert catalog.load_table(name).scan().to_arrow().num_rows


def rows_in(driver: Driver, plan: str) -> int:
    """Rows of all files beside a plan, whether its header names them or not."""
    import io

    stores: Stores = driver.world.warden._deployment.stores
    place = f"{plan}files/"
    files = [stores.get(place + file.key) for file in stores.entries(place).files]
    return sum(pq.read_table(io.BytesIO(data)).num_rows for data in files)


# What each wrong set-up is called. One process meets them all, each with a session of its own.
MEET = """
import json, sys, time
import lakewarden
from lakewarden.model.errors import LakewardenError

for name, config, out in json.load(sys.stdin):
    began = time.monotonic()
    try:
        with lakewarden.open(config) as warden:
            warden.plan("orphans", out=out)
        said = ["no error", 0, ""]
    except LakewardenError as error:
        said = [error.code, int(error.exit_code), error.message]
    print(json.dumps([name, *said, time.monotonic() - began]), flush=True)
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
"""


def test_each_wrong_set_up_has_a_code_of_its_own_within_a_minute(driver: Driver, bucket: Bucket) -> None:
    place = driver.world.base
    lake = small_lake(place / "lake")
    # The plan's own settings: no grace is as short here as in the world's.
    plain: dict[str, Any] = {"orphan_cleanup": {}}
    on_disk = {"state": {"location": f"file://{place}/state", "database": "sqlite"}}
    server = bucket.server
    keys = {"endpoint": server.endpoint, "access_key_id": server.access_key, "secret_access_key": server.secret_key}
    tables_on_disk = {
        "catalogs": {lake.name: {"format": "iceberg", "properties": lake.properties}},
        "state": {"location": f"s3://{bucket.name}/other", "database": f"sqlite:///{place}/other.db"},
        "storage": {f"s3://{bucket.name}": {**keys, "region": "us-east-1"}},
    }
    nobody = f"spark://{HOST}:{free_port()}"
    bare = str(getattr(sys, "_base_executable", sys.executable))

    def wrong(name: str, sections: dict[str, Any] | None = None, **spark: Any) -> str:
        return driver.config(name, sections={**plain, **(sections or {})}, **spark)

    cases = {
        "LW-SPARK-005": (1, nobody, wrong("dead", master=nobody)),
        "LW-SPARK-006": (1, "no executor came", wrong(
            "none", executor_wait_seconds=4, conf=driver.conf(**{"spark.executor.memory": "90g"})
        )),
        "LW-SPARK-007": (1, "/nowhere/python", wrong("python", conf=driver.conf(**{PYTHON: "/nowhere/python"}))),
        "LW-SPARK-008": (1, "cannot import", wrong("bare", conf=driver.conf(**{PYTHON: bare}))),
        "LW-SPARK-009": (64, "does not see", wrong("state", on_disk)),
        "LW-SPARK-010": (64, str(place / "lake"), wrong("roots", tables_on_disk)),
    }  # fmt: skip
    asked = [(code, config, f"s3://{bucket.name}/plan-{code}") for code, (_, _, config) in cases.items()]
    done = subprocess.run(
        [sys.executable, "-c", MEET], input=json.dumps(asked), env=environment(), cwd=place,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    met = {name: said for name, *said in map(json.loads, done.stdout.splitlines())}
    for code, (exit_code, named, _) in cases.items():
        found, exited, message, seconds = met[code]
        assert (found, exited) == (code, exit_code), f"{code}: {met[code]}"
        assert named in message, message
        assert "\n" not in message
        assert seconds < 60
    assert "at org.apache" not in done.stderr
