"""Two catalogs that reach S3 in two ways: each reads and writes its own, and one bucket name of both is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.buckets import Bucket
from tests.support.deployments import Deployed
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.lakes import Lake, write_table
from tests.support.storage import Seaweed


@pytest.fixture
def second(seaweed: Seaweed) -> Iterator[FaultProxy]:
    """Another way to the same server: what goes through it is seen."""
    with fault_proxy(seaweed.endpoint) as proxy:
        yield proxy


def properties(base: Path, name: str, endpoint: str, server: Seaweed, bucket: str) -> dict[str, str]:
    return {
        "type": "sql", "uri": f"sqlite:///{base}/{name}.db", "warehouse": f"s3://{bucket}/{name}",
        "s3.endpoint": endpoint, "s3.access-key-id": server.access_key, "s3.secret-access-key": server.secret_key,
        "s3.region": "us-east-1",
    }  # fmt: skip


def deployed(base: Path, bucket: Bucket, other: str, second: FaultProxy, **storage: dict[str, str]) -> Deployed:
    server = bucket.server
    catalogs = {
        "first": properties(base, "first", server.endpoint, server, bucket.name),
        "second": properties(base, "second", second.endpoint, server, other),
    }
    for name, values in catalogs.items():
        catalog = Lake(name, values, (), base).catalog()
        catalog.create_namespace("ns")
        write_table(catalog, "ns.t", appends=1)
        catalog.close()
    second.clear()
    return Deployed(base, catalogs, storage=storage)  # type: ignore[arg-type]


def test_one_bucket_name_at_two_endpoints_is_refused(tmp_path: Path, bucket: Bucket, second: FaultProxy) -> None:
    with deployed(tmp_path, bucket, bucket.name, second) as world:
        refused = {entry["table"]: entry["code"] for entry in world.warden.doctor()["refused"]}
    assert refused == {"first.ns.t": "LW-STORE-007", "second.ns.t": "LW-STORE-007"}
    assert second.seen(lambda _: True) == []


def test_the_configuration_says_how_one_bucket_is_reached(tmp_path: Path, bucket: Bucket, second: FaultProxy) -> None:
    said = {f"s3://{bucket.name}": bucket.server.options()}
    with deployed(tmp_path, bucket, bucket.name, second, **said) as world:
        assert world.warden.doctor()["refused"] == []


def test_each_catalog_is_read_at_its_own_endpoint(tmp_path: Path, bucket: Bucket, second: FaultProxy) -> None:
    other = bucket.server.bucket()
    with deployed(tmp_path, bucket, other, second) as world:
        assert world.warden.doctor()["refused"] == []
    assert second.requests(path=f"/{other}/") > 0
    assert second.requests(path=f"/{bucket.name}/") == 0
