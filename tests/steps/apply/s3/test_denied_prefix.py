"""Rights that end at one prefix: its root is refused, and the others go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden.model.ports import Shard
from lakewarden.storage.listing import discover_shards, list_shard
from lakewarden.storage.store import UNLISTABLE
from tests.steps.apply.s3.conftest import S3World
from tests.support.buckets import Bucket
from tests.support.fault_proxy import FaultProxy, Request, denied

MakeS3World = Callable[..., S3World]


def listing_of(prefix: str) -> Callable[[Request], bool]:
    def match(request: Request) -> bool:
        asked = request.query.get("prefix", [""])[0]
        return request.method == "GET" and "list-type" in request.query and asked.startswith(prefix)

    return match


def test_a_root_that_may_not_be_listed_is_one_shard_that_says_so(
    s3_world: MakeS3World, proxy: FaultProxy, bucket: Bucket
) -> None:
    world = s3_world(endpoint=proxy.endpoint)
    stores, root = world.warden._deployment.stores, f"s3://{bucket.name}/wh/world0/sales/t0/"
    proxy.on(listing_of("wh/world0/sales/t0"), denied, times=None)
    assert discover_shards(stores, 7, root, 8) == [Shard(7, root)]
    (row,) = [row for batch in list_shard(stores, Shard(7, root)) for row in batch.to_pylist()]
    assert row["flag"].startswith(UNLISTABLE)


@pytest.mark.usefixtures("spark")
def test_one_denied_prefix_refuses_its_root_and_not_the_fleet(
    s3_world: MakeS3World, proxy: FaultProxy, bucket: Bucket
) -> None:
    world = s3_world(("s3", "s3"), endpoint=proxy.endpoint)
    proxy.on(listing_of("wh/world0/sales/t0"), denied, times=None)
    plan = world.plan(unsafe_short_grace=world.uuids())
    refused = {table.identifier: table.refusal and table.refusal.code for table in plan.plan.tables}
    assert refused == {"lake.sales.t0": "LW-STORE-003", "lake.sales.t1": None}
    result = world.apply(plan)
    assert (result.status, result.deleted.files) == ("done", 6)
    left = bucket.keys("wh/")
    assert [uri for uri in world.planted_uris if uri.split("/", 3)[3] in left] == world.planted_uris[:6]
