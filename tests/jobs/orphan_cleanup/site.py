"""A lake whose orphans are planned: real tables by PyIceberg, and ways to age, damage and read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lakewarden.model.clock import SystemClock
from lakewarden.warden import Warden
from tests.support.deployments import Deployed, Seen, planned, sqlite_properties
from tests.support.lakes import age as age_files
from tests.support.lakes import age_everything, data_file, local_path, plant_orphans, write_table

WEEKS = timedelta(days=30)


class Site(Deployed):
    """One lake of Iceberg tables. They are `namespace.name` in the catalog `lake`."""

    def __init__(self, base: Path) -> None:
        super().__init__(
            base, {"lake": sqlite_properties(base)}, sections={"orphan_cleanup": {"max_orphan_share": 1.0}}
        )
        self.catalog = SqlCatalog("lake", **self.catalogs["lake"])

    def close(self) -> None:
        self.catalog.close()
        super().close()

    def add(self, name: str, **how: Any) -> Table:
        """A table with two appends, in the warehouse or at `location`."""
        self.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return write_table(self.catalog, name, **how)

    def old(self) -> None:
        """Make every file a month old: from here on only reachability protects one."""
        age_everything(self.base / "warehouse")

    def plan(  # type: ignore[override]
        self, *select: str, clock: SystemClock | None = None, warden: Warden | None = None, **how: Any
    ) -> Seen:
        """Plan orphan cleanup, by a process of its own unless one is given."""
        return planned(warden or self.another(clock), "orphans", *select, **how)


def plant(table: Table | Path, *names: str, age: timedelta = WEEKS) -> list[Path]:
    """Files that nothing reaches, in a table's directory."""
    location = str(table) if isinstance(table, Path) else table.location()
    return plant_orphans(location, names, age_seconds=age.total_seconds())


def files_of(table: Table) -> set[Path]:
    """Everything that the table's directory holds."""
    return {path for path in local_path(table.location()).rglob("*") if path.is_file()}


def data_files(table: Table) -> list[Path]:
    """The data files of the current snapshot."""
    return sorted(local_path(path) for path in table.inspect.files()["file_path"].to_pylist())


def manifests(table: Table) -> list[Path]:
    """The manifests of the current snapshot, oldest first."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = sorted(snapshot.manifests(table.io), key=lambda m: m.sequence_number)
    return [local_path(manifest.manifest_path) for manifest in found]


def manifest_list(table: Table) -> Path:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return local_path(str(snapshot.manifest_list))


def metadata(table: Table) -> Path:
    return local_path(table.metadata_location)


def edit_metadata(table: Table, **fields: Any) -> None:
    """Write fields straight into the current metadata.json, as another engine or a newer one would; dots for dashes."""
    path = metadata(table)
    document = json.loads(path.read_text())
    for name, value in fields.items():
        if value is None:
            del document[name.replace("_", "-")]
        elif isinstance(value, Mapping):
            document[name.replace("_", "-")] = {**document.get(name.replace("_", "-"), {}), **value}
        else:
            document[name.replace("_", "-")] = value
    path.write_text(json.dumps(document))


def register(table: Table, *addresses: str) -> None:
    """Commit data files by address, as they are: no reader looks at them, no writer spells them anew."""
    with table.transaction() as change, change.update_snapshot().fast_append() as added:
        for address in addresses:
            added.append_data_file(data_file(table, address))


def write_file(path: Path, age: timedelta = WEEKS) -> str:
    """A data file that nothing refers to yet; its address."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "part": ["a"]}), path)
    age_files([path], age.total_seconds())
    return f"file://{path}"
