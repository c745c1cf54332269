"""A day of all jobs on S3, by a cluster whose workers share nothing with the driver, beside the same day on one machine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from lakewarden.storage.stores import Stores
from tests.formats.paimon.tables import Lake as PaimonLake
from tests.formats.paimon.tables import upload
from tests.pipeline.spark.test_cluster import Driver, cluster, driver_place, environment  # noqa: F401
from tests.steps.apply.s3.conftest import S3World, _world
from tests.support.buckets import Bucket
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.lakes import append
from tests.support.spark import JARS
from tests.support.storage import Seaweed

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("java"), pytest.mark.timeout(1800)]
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04")
# Each leaves a manifest with both partitions in it.
APPENDS = 12
# How often an executor dies while the cluster's day goes on.
EVERY_SECONDS = 30


def lake_in(place: Path, seaweed: Seaweed, bucket: Bucket) -> S3World:
    """Two Iceberg tables with a history, a Paimon table, orphans of both."""
    world = _world(bucket, place / f"world-{bucket.name}", ("s3", "s3"), True, seaweed.endpoint, rate_limit_ms=0)
    catalog = world.catalog()
    for name in world.lake.tables:
        table = catalog.load_table(name)
        with table.transaction() as changes:
            changes.set_properties({"commit.manifest-merge.enabled": "false"})
        table.overwrite(table.scan().to_arrow().slice(0, 4))
        for number in range(APPENDS):
            append(table, 100 + number * 4)
    paimon = PaimonLake(place / f"paimon-{bucket.name}").create("stream")
    for day in DAYS:
        paimon.write(day)
    stores = Stores({f"s3://{bucket.name}": seaweed.options()})
    upload(paimon, stores, f"s3://{bucket.name}/paimon/db.db/stream/")
    bucket.put("paimon/db.db/stream/bucket-0/data-5f0c2e1a-8d7b-4c1e-9a55-0123456789ab-0.parquet")
    return world


def sections(bucket: Bucket) -> dict[str, Any]:
    return {
        "snapshot_expiry": {"retain_hours": 0},
        "manifest_rewrite": {"min_manifests": 2, "min_gain": 0.0},
        "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0},
        "storage": {f"s3://{bucket.name}": bucket.server.options()},
    }


def day_of(config: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.soak.cluster_day", config]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_day_on_a_cluster_ends_as_a_day_on_one_machine(
    cluster: Cluster,  # noqa: F811
    seaweed: Seaweed,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = driver_place(tmp_path_factory.mktemp("place"))
    days: dict[str, list[dict[str, Any]]] = {}
    left: dict[str, int] = {}
    for where in ("here", "there"):
        bucket = Bucket(seaweed, f"day-{where}", seaweed.client())
        bucket.client.create_bucket(Bucket=bucket.name)
        world = lake_in(place, seaweed, bucket)
        driver = Driver(world, cluster)
        jars = {"spark.jars.packages": ",".join(JARS[:2])}
        spark = {"master": "local[2]", "conf": jars} if where == "here" else {"conf": driver.conf(**jars)}
        stream = {"stream": {"format": "paimon", "properties": {"warehouse": f"s3://{bucket.name}/paimon"}}}
        config = driver.config(where, sections=sections(bucket), beside=stream, **spark)
        with dying(cluster) if where == "there" else nullcontext():
            days[where] = day_of(config)
        left[where] = len(bucket.keys("wh/")) + len(bucket.keys("paimon/"))
        for name in world.lake.tables:
            assert world.catalog().load_table(name).scan().to_arrow().num_rows == 4 + 4 * APPENDS
    assert days["there"] == days["here"]
    assert left["there"] == left["here"]
    for told in days["there"]:
        assert (told["status"], told["refused"], told["failed"]) == ("done", [], 0), told
        assert any(told["changed"].values()), told


@contextmanager
def dying(cluster: Cluster) -> Iterator[None]:  # noqa: F811
    """One executor after the other, as long as the day goes on."""
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(EVERY_SECONDS):
            for executor in cluster.executors()[:1]:
                executor.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        stop.set()
        killer.join()
