"""Deployments on the tests' S3 server: tables, state, plans and trash in buckets, the catalog in a file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.buckets import Bucket
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.lakes import ORPHAN_NAMES, Lake, write_table
from tests.support.worlds import World, write_config

# On S3 no file can be made old, so the cut-off is now, which a plan accepts only for tables named one by one.
NO_GRACE = {"grace_period_hours": 0}


@dataclass
class S3World(World):
    """A lake in a bucket, and the deployment that looks after it."""

    bucket: Bucket | None = None
    planted_uris: list[str] = field(default_factory=list)

    def uuids(self) -> list[str]:
        catalog = self.catalog()
        return [str(catalog.load_table(name).metadata.table_uuid) for name in self.lake.tables]


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    """Between a world and the server, if the world is told its endpoint."""
    with fault_proxy(bucket.server.endpoint) as found:
        yield found


@pytest.fixture
def s3_world(bucket: Bucket, tmp_path: Path) -> Iterator[Callable[..., S3World]]:
    made: list[S3World] = []

    def make(
        schemes: tuple[str, ...] = ("s3",), state_in_bucket: bool = True, endpoint: str = "", **policy: Any
    ) -> S3World:
        base = tmp_path / f"world{len(made)}"
        world = _world(bucket, base, schemes, state_in_bucket, endpoint or bucket.server.endpoint, **policy)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


def _world(
    bucket: Bucket, base: Path, schemes: tuple[str, ...], state_in_bucket: bool, endpoint: str, **policy: Any
) -> S3World:
    base.mkdir()
    server = bucket.server
    properties = {
        "type": "sql", "uri": f"sqlite:///{base}/catalog.db", "warehouse": f"s3://{bucket.name}/wh",
        "s3.endpoint": endpoint, "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key, "s3.region": "us-east-1",
    }  # fmt: skip
    lake = Lake("lake", properties, tuple(f"sales.t{number}" for number in range(len(schemes))), base)
    catalog = lake.catalog()
    catalog.create_namespace("sales")
    planted = []
    for number, scheme in enumerate(schemes):
        place = f"wh/{base.name}/sales/t{number}"
        write_table(catalog, f"sales.t{number}", location=f"{scheme}://{bucket.name}/{place}")
        planted += [bucket.put(f"{place}/{name.format(uuid.uuid4())}") for name in ORPHAN_NAMES]
    state = f"s3://{bucket.name}/state-{base.name}" if state_in_bucket else None
    database = f"sqlite:///{base}/ledger.db"
    config = write_config(base, "lake", properties, state=state, database=database, **{**NO_GRACE, **policy})
    world = S3World(base, lake, config, bucket=bucket, planted_uris=planted)
    return world
