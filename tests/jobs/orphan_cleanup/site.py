"""A lake under test: real tables by PyIceberg, a configuration file, and plans read back as plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.clock import SystemClock
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.warden import Warden
from lakewarden.wiring import open_warden
from tests.support.lakes import age as age_files
from tests.support.lakes import age_everything, local_path, plant_orphans, write_table

WEEKS = timedelta(days=30)


class TurnedClock(SystemClock):
    """The machine's clock, turned `by` as much as a test says: the fault of a wrong clock.

    What has `passed` has passed for the stores too (tests/conftest.py): that is no fault, only later.
    """

    def __init__(self, by: timedelta = timedelta()) -> None:
        self.by = by
        self.passed = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by + self.passed


@dataclass(frozen=True)
class Seen:
    """A plan, with what tests ask of it."""

    plan: Plan
    path: str
    rows: Sequence[Mapping[str, Any]]

    def table(self, name: str) -> TablePlan:
        return next(
            table for table in self.plan.tables if table.identifier == name or table.identifier == f"lake.{name}"
        )

    def refusal(self, name: str) -> str | None:
        """The code of the table's refusal."""
        found = self.table(name).refusal
        return found.code if found else None

    def message(self, name: str) -> str:
        found = self.table(name).refusal
        assert found is not None, f"{name} was planned"
        return found.message

    def orphans(self, name: str | None = None) -> set[Path]:
        return self.judged("orphan", name)

    def judged(self, verdict: str, name: str | None = None) -> set[Path]:
        """The files of that verdict, as paths on this disk, under the names the plan will delete."""
        wanted = None if name is None else self.table(name).identifier
        return {
            local_path(row["uri"]) for row in self.rows if row["verdict"] == verdict and wanted in (None, row["table"])
        }

    def verdict(self, path: Path) -> str:
        """The verdict on one file; a live file has no row."""
        return next((row["verdict"] for row in self.rows if local_path(row["uri"]) == path), "live")


class Site:
    """One lake, its catalog and its configuration. Tables are `namespace.name` in the catalog `lake`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{base}/catalog.db",
            "warehouse": f"file://{base}/warehouse",
        }
        self.catalogs: dict[str, Mapping[str, str]] = {"lake": self.properties}
        self.settings: dict[str, Any] = {"max_orphan_share": 1.0}
        self.more = ""
        self.state = f"file://{base}/state"
        self.catalog = SqlCatalog("lake", **self.properties)
        self._wardens: list[Warden] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.catalog.close()
        for warden in self._wardens:
            warden.close()

    def add(self, name: str, **how: Any) -> Table:
        """A table with two appends, in the warehouse or at `location`."""
        self.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return write_table(self.catalog, name, **how)

    def old(self) -> None:
        """Make every file a month old: from here on only reachability protects one."""
        age_everything(self.base / "warehouse")

    def config(self) -> str:
        lines = ["[worker]", 'id = "tester"', "[state]", f'location = "{self.state}"', "[spark]", 'master = "local[2]"']
        for name, properties in self.catalogs.items():
            pairs = ", ".join(f'"{key}" = {json.dumps(value)}' for key, value in properties.items())
            lines += [f"[catalogs.{name}]", 'format = "iceberg"', f"properties = {{ {pairs} }}"]
        lines += ["[orphan_cleanup]", *(f"{key} = {_toml(value)}" for key, value in self.settings.items()), self.more]
        path = self.base / "lakewarden.toml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def warden(self, clock: SystemClock | None = None) -> Warden:
        self._wardens.append(open_warden(self.config(), clock=clock))
        return self._wardens[-1]

    def plan(
        self,
        *select: str,
        clock: SystemClock | None = None,
        trigger: Trigger = Trigger.MANUAL,
        warden: Warden | None = None,
        **how: Any,
    ) -> Seen:
        """Plan orphan cleanup and read the plan's rows back, those of refused tables too."""
        warden = warden or self.warden(clock)
        result = warden.plan("orphans", select=select, actor=Actor("tester", "tester", trigger), **how)
        loaded = warden.load_plan(result.path)
        assert loaded.plan == result.plan
        return Seen(loaded.plan, result.path, list(warden.plan_rows(result.path)))


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
            added.append_data_file(_data_file(table, address))


def _data_file(table: Table, address: str) -> DataFile:
    maps = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    return DataFile.from_args(
        _table_format_version=table.format_version,
        content=DataFileContent.DATA,
        file_path=address,
        file_format=FileFormat.PARQUET,
        partition=Record("a") if table.spec().fields else Record(),
        record_count=1,
        file_size_in_bytes=local_path(address).stat().st_size,
        spec_id=table.spec().spec_id,
        **{name: {} for name in maps},
        **dict.fromkeys(("sort_order_id", "equality_ids", "key_metadata", "split_offsets")),
    )


def write_file(path: Path, age: timedelta = WEEKS) -> str:
    """A data file that nothing refers to yet; its address."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "part": ["a"]}), path)
    age_files([path], age.total_seconds())
    return f"file://{path}"


def _toml(value: object) -> str:
    return (
        json.dumps(value)
        if not isinstance(value, dict)
        else "{" + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items()) + "}"
    )
