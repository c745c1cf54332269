"""The same plan on a real standalone cluster: a master and two workers from the pip package's own classes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import HOST, standalone, this_environment
from tests.support.deployments import Deployed
from tests.support.lakes import plant_orphans, small_lake

pytestmark = pytest.mark.usefixtures("java")

NAMES = ("data/{}.parquet", "metadata/{}-m0.avro")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """`spark://…` of a master with two workers of one core each, which run in this environment and on this disk."""
    with standalone(tmp_path / "cluster", this_environment()) as cluster:
        yield cluster.master


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
