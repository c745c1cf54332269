"""Builds the demo's Paimon table by pypaimon: partitioned by day, with a tag, a branch and files that nobody needs."""

from __future__ import annotations

import os
import random
import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from demo.lake import DAY, Planted

TABLE = "web.events"
IDENTIFIER = f"stream.{TABLE}"
KEPT_DAYS = 30
KEPT_SNAPSHOTS = 1
COLUMNS = pa.schema([("id", pa.int64()), ("page", pa.string()), ("day", pa.string())])
CONFIG = f"""
[catalogs.stream]
format = "paimon"
properties = {{{{ warehouse = "file://{{base}}/stream" }}}}

[[overrides]]
match = "{IDENTIFIER}"
[overrides.partition_expiry]
expiration_hours = {KEPT_DAYS * 24}
timestamp_formatter = "yyyy-MM-dd"
[overrides.snapshot_expiry]
retain_min = {KEPT_SNAPSHOTS}
retain_max = {KEPT_SNAPSHOTS}
keep = ["trial"]
"""


@dataclass(frozen=True, slots=True)
class DemoStream:
    """The table, and what a right answer looks like."""

    location: Path
    warehouse: str
    old_days: tuple[str, ...]
    planted: Planted

    def open(self, branch: str = "main", options: Mapping[str, str] | None = None) -> Any:
        """pypaimon's table, as it is now."""
        from pypaimon import CatalogFactory

        name = TABLE if branch == "main" else f"{TABLE}$branch_{branch}"
        return CatalogFactory.create({"warehouse": self.warehouse}).get_table(name).copy(dict(options or {}))


def build(base: Path) -> DemoStream:
    """A table whose files are a month old but for one; of four days of data, two are older than the table keeps."""
    from pypaimon import CatalogFactory, Schema

    warehouse = f"file://{base}/stream"
    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("web", True)
    schema = Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], options={"bucket": "-1"})
    catalog.create_table(TABLE, schema, False)
    today = datetime.now(UTC).date()
    days = tuple(f"{today - timedelta(days=ago)}" for ago in (60, 45, 2, 1))
    stream = DemoStream(base / "stream" / "web.db" / "events", warehouse, days[:2], Planted((), {}))
    for batch in range(4):
        _write(stream, batch * 100, days)
    stream.open().create_tag("launch", 3)
    stream.open().branch_manager().create_branch("trial", "launch")
    _write(stream, 5_000, days[2:], branch="trial")
    _write(stream, 400, days[2:3], overwrite={"day": days[2]})
    for batch in range(5, 7):
        _write(stream, batch * 100, days[2:])
    planted = _plant(stream.location, days)
    _age(base / "stream", set(planted.kept))
    return DemoStream(stream.location, warehouse, days[:2], planted)


def _write(
    stream: DemoStream, first: int, days: tuple[str, ...], branch: str = "main", overwrite: dict[str, str] | None = None
) -> None:
    """One commit of a hundred rows."""
    builder = stream.open(branch).new_batch_write_builder()
    if overwrite is not None:
        builder = builder.overwrite(overwrite)
    writer, commit = builder.new_write(), builder.new_commit()
    draw = random.Random(first)
    rows = [{"id": i, "page": f"/{draw.choice('abc')}", "day": days[i % len(days)]} for i in range(first, first + 100)]
    writer.write_arrow(pa.Table.from_pylist(rows, schema=COLUMNS))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def _plant(location: Path, days: tuple[str, ...]) -> Planted:
    """What a crashed writer leaves, one file that may be a writer's of now, and one that is not Paimon's."""
    bucket, manifests = location / f"day={days[3]}" / "bucket-0", location / "manifest"
    some_data = next(bucket.glob("data-*"))
    some_list = next(manifests.glob("manifest-list-*"))
    orphans = {
        **{bucket / f"data-{uuid.uuid4()}-0.parquet": some_data for _ in range(3)},
        manifests / f"manifest-{uuid.uuid4()}-0": some_list,
        manifests / f"manifest-list-{uuid.uuid4()}-0": some_list,
        location / "snapshot" / f".snapshot-9.{uuid.uuid4()}.tmp": location / "snapshot" / "snapshot-1",
    }
    new, strange = bucket / f"data-{uuid.uuid4()}-0.parquet", bucket / "notes-of-the-team.txt"
    for path, content in {**orphans, new: some_data, strange: some_data}.items():
        shutil.copyfile(content, path)
    os.utime(strange, times=(time.time() - 30 * DAY,) * 2)
    kept = {
        new: "too new: it may belong to a writer that has not committed yet",
        strange: "protected: Paimon never writes such a name, so it is somebody else's",
    }
    return Planted(tuple(orphans), kept)


def _age(warehouse: Path, but_for: set[Path]) -> None:
    then = time.time() - 30 * DAY
    for path in warehouse.rglob("*"):
        if path.is_file() and path not in but_for:
            os.utime(path, (then, then))
