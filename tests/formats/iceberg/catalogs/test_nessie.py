"""Tables that Nessie serves are refused by name: other branches, invisible here, may need any of their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden.model.errors import NessieServedError
from tests.formats.iceberg.catalogs.conftest import TABLES, RestLake, RestWorld
from tests.formats.iceberg.catalogs.fronts import front
from tests.formats.iceberg.catalogs.test_rest import refusals
from tests.support.buckets import Bucket
from tests.support.lakes import write_table
from tests.support.missing import missing
from tests.support.nessie import start_nessie
from tests.support.rest import JarsMissingError
from tests.support.storage import Seaweed
from tests.support.worlds import World, write_config

pytestmark = pytest.mark.usefixtures("spark")
REFUSED = NessieServedError.code

# What Nessie 0.99.0 answered, when asked for its configuration and for a table; addresses left out.
NESSIE_OVERRIDES = {
    "nessie.core-base-uri": "http://nessie.invalid/api/",
    "nessie.catalog-base-uri": "http://nessie.invalid/catalog/v1/",
    "nessie.iceberg-base-uri": "http://nessie.invalid/iceberg/",
    "nessie.is-nessie-catalog": "true",
    "nessie.prefix-pattern": "{ref}|{warehouse}",
    "nessie.default-branch.name": "main",
}


def like_nessie(path: str, document: dict[str, Any]) -> None:
    if path.endswith("/v1/config"):
        document.setdefault("overrides", {}).update(NESSIE_OVERRIDES)


@pytest.mark.parametrize("gc_enabled", [None, "false"])
def test_a_server_that_says_it_is_nessie(rest_world: RestWorld, gc_enabled: str | None) -> None:
    """A stand-in: Apache's catalog behind a front that answers `/v1/config` as Nessie does. The real one is below.

    Nessie serves gc.enabled=false too, and the advice that goes with that refusal (switch it on) would be wrong.
    """
    if gc_enabled is not None:
        for name in TABLES:
            with rest_world.table(name).transaction() as change:
                change.set_properties({"gc.enabled": gc_enabled})
    before = rest_world.on_disk()
    with front(rest_world.lake.properties["uri"], like_nessie) as uri:
        world = rest_world.deploy(uri=uri)
        plan = world.plan()
        world.close()
    assert refusals(plan.plan) == {f"lake.{name}": REFUSED for name in TABLES}
    assert plan.plan.totals()["changes"].get("files", 0) == 0
    assert rest_world.on_disk() == before


@pytest.fixture
def nessie_uri(bucket: Bucket, tmp_path: Path) -> Iterator[str]:
    server: Seaweed = bucket.server
    try:
        uri, stop = start_nessie(tmp_path / "nessie.log", f"s3://{bucket.name}/wh/", server)
    except JarsMissingError as error:
        missing(error)
    yield uri
    stop()


@pytest.mark.timeout(420)
def test_nessie_itself(nessie_uri: str, bucket: Bucket, tmp_path: Path) -> None:
    """A real Nessie server: neither its orphans nor its snapshots are for us to judge, and we say so."""
    server = bucket.server
    properties = {
        "type": "rest", "uri": nessie_uri, "s3.endpoint": server.endpoint, "s3.region": "us-east-1",
        "s3.access-key-id": server.access_key, "s3.secret-access-key": server.secret_key,
    }  # fmt: skip
    lake = RestLake("lake", properties, ("sales.orders",), tmp_path)
    catalog = lake.catalog()
    catalog.create_namespace("sales")
    table = write_table(catalog, "sales.orders")
    assert table.properties["gc.enabled"] == "false"
    assert {name for name in NESSIE_OVERRIDES if name not in catalog.properties} == set()
    world = World(tmp_path, lake, write_config(tmp_path, "lake", properties))
    plans = [world.plan(), world.warden.plan("snapshot-expiry")]
    world.close()
    assert [refusals(plan.plan) for plan in plans] == [{"lake.sales.orders": REFUSED}] * 2
    assert [any(plan.plan.totals()["changes"].values()) for plan in plans] == [False, False]
