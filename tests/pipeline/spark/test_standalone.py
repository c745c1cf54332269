"""The same plan on a real standalone cluster: a master and two workers from the pip package's own classes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.support.deployments import Deployed
from tests.support.lakes import plant_orphans, small_lake

pytestmark = pytest.mark.usefixtures("java")

HOST = "127.0.0.1"
NAMES = ("data/{}.parquet", "metadata/{}-m0.avro")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """`spark://…` of a master with two workers of one core each."""
    home = Path(pyspark.__file__).parent
    port = _free_port()
    address = f"spark://{HOST}:{port}"
    env = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
    }

    def start(stack: ExitStack, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = stack.enter_context((tmp_path / f"{arguments[0].rsplit('.', 1)[-1]}-{name}.log").open("wb"))
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments], env=env, stdout=log, stderr=subprocess.STDOUT
        )
        stack.callback(process.wait, 30)
        stack.callback(process.kill)
        return process

    with ExitStack() as stack:
        classes = "org.apache.spark.deploy"
        web = str(_free_port())
        start(stack, "m", f"{classes}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", web)
        for number in range(2):
            work, web = str(tmp_path / f"work{number}"), str(_free_port())
            options = ["--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", web, "--work-dir", work]
            start(stack, str(number), f"{classes}.worker.Worker", *options, address)
        _wait_for_workers(tmp_path)
        yield address


def _wait_for_workers(logs: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        said = [path.read_text(errors="replace") for path in logs.glob("Worker-*.log")]
        if len(said) == 2 and all("Successfully registered with master" in text for text in said):
            return
        time.sleep(0.2)
    raise AssertionError("the workers did not register")


def test_a_cluster_finds_the_same_orphans(master: str, tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake")
    catalog = lake.catalog()
    locations = [catalog.load_table(name).location() for name in lake.tables]
    catalog.close()
    planted = {path for location in locations for path in plant_orphans(location, NAMES)}
    spark = {"master": master, "conf": {"spark.executor.memory": "512m", "spark.driver.host": HOST}}
    sections = {"spark": spark, "orphan_cleanup": {"max_orphan_share": 1.0}}
    config = Deployed(tmp_path, {lake.name: lake.properties}, worker="cluster", sections=sections).config()
    command = [sys.executable, "-m", "lakewarden", "plan", "orphans", "--config", config, "--output", "json"]
    done = subprocess.run([*command, "--out", str(tmp_path / "plan")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["totals"]["verdicts"]["orphan"]["files"] == len(planted)
    assert {table["status"] for table in plan["tables"]} == {"planned"}
