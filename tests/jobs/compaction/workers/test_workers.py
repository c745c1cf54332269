"""Two real workers on one lake beside writers: every row is there, and a worker that dies or sleeps changes nothing in that."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.jobs.compaction.workers.busy_lake import BusyLake
from tests.jobs.compaction.workers.spark_writer import add_spark_writer
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.rest import Serve
from tests.support.storage import Seaweed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(280),
    pytest.mark.usefixtures("java"),
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),  # PyIceberg, of the other writer's table
]


@contextmanager
def make_lake(seaweed: Seaweed, postgres_url: str, serve: Serve | None, base: Path) -> Iterator[BusyLake]:
    """A lake on the S3 server whose tables a PostgreSQL or a REST catalog names; the workers' state is in PostgreSQL."""
    client = seaweed.client()
    bucket = f"busy{uuid.uuid4().hex[:10]}"
    client.create_bucket(Bucket=bucket)
    keys = {
        "s3.endpoint": seaweed.endpoint,
        "s3.access-key-id": seaweed.access_key,
        "s3.secret-access-key": seaweed.secret_key,
        "s3.region": "us-east-1",
    }
    uri = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    properties = {"type": "sql", "uri": uri, "warehouse": f"s3://{bucket}/lake", **keys}
    if serve is not None:
        io = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.path-style-access": "true"}
        server = serve({"warehouse": f"s3://{bucket}/lake", "client.region": "us-east-1", **io, **keys})
        properties = {"type": "rest", "uri": server.uri, **keys}
    # Spark remembers a catalog by its name.
    site = Site(base, {bucket: properties}, database=postgres_url, state=f"s3://{bucket}/state")
    site.storage = {f"s3://{bucket}": seaweed.options()}
    section = {"dry_run": False, "min_input_files": 2, "bandwidth_share": 1.0, "target_file_size_bytes": 1 << 20}
    site.sections["compaction"] = {**section, "settle_minutes": 0}
    found = BusyLake(base, site, bucket, client, bucket)
    try:
        with site:
            yield found
    finally:
        for worker in found.workers:
            worker.end()


def told(lake: BusyLake, landed: Counter[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """Print what was done; the bytes that were written for nothing, and all that were written."""
    acts = sum((writer.acts for writer in lake.writers), start=Counter[str]())
    wasted, written = lake.wasted()
    with capsys.disabled():
        share = f"{wasted / max(1, written):.1%}"
        print(f"\n{dict(acts)}; groups by worker {dict(landed)}; {wasted} of {written} bytes wasted ({share})")
        for why, count in lake.left().most_common():
            print(f"  {count} groups left: {why}")
    return wasted, written


@pytest.fixture(params=["postgresql", pytest.param("rest", marks=pytest.mark.soak)])
def lake(
    request: pytest.FixtureRequest, seaweed: Seaweed, postgres_url: str, spark: SparkSession, tmp_path: Path
) -> Iterator[BusyLake]:
    serve = request.getfixturevalue("serve") if request.param == "rest" else None
    with make_lake(seaweed, postgres_url, serve, tmp_path) as found:
        add_spark_writer(found, spark, seaweed)
        yield found


def test_two_workers_beside_writers(lake: BusyLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.start(2)
    over = threading.Event()
    writing = threading.Thread(target=lake.write_until, args=(over, 0.4))
    writing.start()
    try:
        first, second = lake.workers
        first.at_work()
        second.at_work()
        # One is killed at work and started anew; the other is stopped until its leases are anybody's, and goes on.
        first.kill()
        first.start()
        second.pause()
        second.at_work()
        first.at_work()
    finally:
        over.set()
        writing.join()
    lake.stop()
    lake.check_rows()
    landed = lake.check_commits()
    wasted, written = told(lake, landed, capsys)
    assert sum(landed.values()) > 4
    assert 0 <= wasted < written
