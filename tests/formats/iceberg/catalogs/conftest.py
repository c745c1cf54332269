"""Lakes behind a real REST catalog: on local disk and on the S3 server, with a deployment for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog as RestClient

from tests.steps.apply.s3.conftest import NO_GRACE, S3World
from tests.support.lakes import Lake, age_everything, local_path, plant_orphans, write_table
from tests.support.rest import RestCatalog, Serve
from tests.support.worlds import World, write_config

TABLES = ("sales.orders", "sales.eu.orders")


@dataclass(frozen=True, slots=True)
class RestLake(Lake):
    """A lake whose catalog is a server."""

    def catalog(self) -> RestClient:  # type: ignore[override]
        return load_catalog(self.name, **self.properties)  # type: ignore[return-value]


@dataclass
class RestWorld(World):
    """A lake on local disk behind a REST catalog that this test may stop."""

    server: RestCatalog | None = None

    def stop_server(self) -> None:
        assert self.server is not None
        self.server.stop()

    def deploy(self, **properties: str) -> RestWorld:
        """The same lake under other catalog properties, looked after by a deployment of its own."""
        base = self.base / uuid.uuid4().hex
        lake = RestLake("lake", self.lake.properties | properties, self.lake.tables, base)
        config = write_config(base, lake.name, lake.properties)
        return RestWorld(self.base, lake, config, self.orphans, server=self.server)


@pytest.fixture
def rest_world(serve: Serve, tmp_path: Path) -> Iterator[RestWorld]:
    """Two month-old tables, one in a namespace within a namespace, with six orphans each."""
    base = tmp_path / "world"
    server = serve({"warehouse": f"file://{base}/lake/warehouse"})
    lake = RestLake("lake", {"type": "rest", "uri": server.uri}, TABLES, base)
    fill(lake.catalog())
    planted = {name: plant_orphans(lake.catalog().load_table(name).location()) for name in TABLES}
    age_everything(base / "lake" / "warehouse")
    world = RestWorld(base, lake, write_config(base, "lake", lake.properties, batch_size=1), planted, server=server)
    yield world
    world.close()


def fill(catalog: Any, tables: tuple[str, ...] = TABLES, **how: Any) -> None:
    for name in tables:
        parts = name.split(".")[:-1]
        for depth in range(len(parts)):
            catalog.create_namespace_if_not_exists(".".join(parts[: depth + 1]))
        write_table(catalog, name, **how)


def metadata_file(world: World, table: str) -> Path:
    return local_path(world.table(table).metadata_location)


__all__ = ["NO_GRACE", "S3World"]
