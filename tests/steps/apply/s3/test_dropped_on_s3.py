"""A table dropped between plan and apply, with everything under its prefix: a bucket has no directory to miss."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden.model.errors import MissingStoreError, PlanOutdatedError
from tests.steps.apply.s3.conftest import S3World
from tests.support.buckets import Bucket
from tests.support.worlds import hand_plan

MakeS3World = Callable[..., S3World]


def empty(bucket: Bucket, prefix: str) -> None:
    for key in bucket.keys(prefix):
        bucket.client.delete_object(Bucket=bucket.name, Key=key)


def test_a_dropped_table_stops_only_its_own_prefix(s3_world: MakeS3World, bucket: Bucket) -> None:
    world = s3_world(("s3", "s3"), batch_size=4)
    plan = hand_plan(world, world.planted_uris)
    world.catalog().drop_table("sales.t0")
    empty(bucket, "wh/world0/sales/t0/")
    result = world.apply(plan)
    assert (result.status, result.deleted.files, result.absent, result.kept["revalidated"]) == ("partial", 6, 0, 6)
    assert [(left.uri, left.code) for left in result.failed] == [
        (f"s3://{bucket.name}/wh/world0/sales/t0/", PlanOutdatedError.code)
    ]


def test_a_prefix_that_lost_everything_while_its_table_is_listed_is_an_outage(
    s3_world: MakeS3World, bucket: Bucket
) -> None:
    world = s3_world(("s3", "s3"), batch_size=4)
    plan = hand_plan(world, world.planted_uris)
    empty(bucket, "wh/world0/sales/t0/")
    with pytest.raises(MissingStoreError):
        world.apply(plan)
    assert world.warden.runs()[0]["finished_at"] is None
