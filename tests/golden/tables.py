"""The tables of the golden lake. Their data is large and of one seed, so that sizes are the same in each run."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, LongType, NestedField, StringType

from tests.formats.paimon.tables import COLUMNS, LakeTable
from tests.formats.paimon.tables import Lake as PaimonWarehouse
from tests.golden.clock import NOW
from tests.support.lakes import local_path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", StringType(), required=False),
    NestedField(3, "body", BinaryType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
OLD_DAYS = ("2025-10-01", "2025-10-02")
DAYS = (*OLD_DAYS, "2026-01-10")
ORPHANS = {
    "sales.orders": (
        "data/day=2026-01-10/part-00000-crashed.parquet",
        "data/day=2026-01-10/part-00001-crashed.parquet",
        "data/day=2026-01-10/part-00002-crashed.parquet",
        "metadata/lost-race-m0.avro",
    ),
    "sales.items": ("data/part-00000-crashed.parquet",),
}
MONTH = timedelta(days=30)
MIB = 1 << 20


def build_iceberg(base: Path) -> None:
    """Orders and items with orphans and old snapshots, clicks with small manifests, invoices that nobody may touch."""
    properties = {"uri": f"sqlite:///{base}/catalog.db", "warehouse": f"file://{base}/warehouse"}
    catalog = SqlCatalog("lake", **properties)
    for namespace in ("sales", "web", "finance"):
        catalog.create_namespace(namespace)
    orders = catalog.create_table("sales.orders", SCHEMA, partition_spec=BY_DAY)
    orders.append(rows(1, DAYS))
    orders.overwrite(rows(2, DAYS[2:]), EqualTo("day", DAYS[2]))
    orders.append(rows(3, ("2026-01-12",)))
    items = catalog.create_table("sales.items", SCHEMA)
    items.append(rows(4, ("2026-01-01",)))
    items.manage_snapshots().create_tag(items.snapshots()[0].snapshot_id, "audit-2025").commit()
    items.overwrite(rows(5, ("2026-01-01",)))
    items.overwrite(rows(6, ("2026-01-01",)))
    clicks = catalog.create_table("web.clicks", SCHEMA, partition_spec=BY_DAY)
    for seed in range(7, 11):
        clicks.append(rows(seed, (f"2026-01-{seed:02}", f"2026-01-{seed + 1:02}")))
    invoices = catalog.create_table("finance.invoices", SCHEMA, properties={"gc.enabled": "false"})
    invoices.append(rows(12, ("2026-01-01",)))
    for table in (orders, items, clicks, invoices):
        back_date(catalog.load_table(table.name()))
    for name, names in ORPHANS.items():
        for orphan in names:
            plant(local_path(catalog.load_table(name).location()) / orphan)
    age(base / "warehouse", NOW - MONTH)
    root = local_path(orders.location())
    plant(root / "data/day=2026-01-12/part-00000-being-written.parquet", NOW - timedelta(hours=1))
    plant(root / "data/_temporary/part-00000.parquet", NOW - MONTH)
    catalog.close()


def build_paimon(base: Path) -> None:
    """Events, with days that are past their time and what a crashed writer left."""
    events = PaimonWarehouse(base / "stream").create("events", database="web")
    for seed, day in enumerate(("2025-10-01", "2026-01-10", "2026-01-11", "2026-01-12")):
        _commit(events, random.Random(seed).randbytes(4 * MIB).hex(), day)
    bucket = next(events.path.glob("dt=2026-01-12/bucket-*"))
    for number in range(2):
        plant(bucket / f"data-00000000-0000-4000-8000-00000000000{number}-0.parquet")
    for place, snapshot in enumerate(sorted(events.path.glob("snapshot/snapshot-*"), reverse=True)):
        document = json.loads(snapshot.read_text())
        moment = NOW - timedelta(days=10 * place, hours=1)
        snapshot.write_text(json.dumps(document | {"timeMillis": _millis(moment)}))
    age(base / "stream", NOW - MONTH)


def _commit(table: LakeTable, body: str, day: str) -> None:
    builder = table.opened.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pylist([{"id": 1, "dt": day, "v": body}], schema=COLUMNS))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def rows(seed: int, days: Sequence[str]) -> pa.Table:
    """A row of four mebibytes a day."""
    draw = random.Random(seed)
    bodies = [draw.randbytes(4 * MIB) for _ in days]
    return pa.table(
        {"id": pa.array(range(seed, seed + len(days)), pa.int64()), "day": list(days), "body": bodies},
        schema=pa.schema([("id", pa.int64()), ("day", pa.string()), ("body", pa.binary())]),
    )


def back_date(table: Table) -> None:
    """Let the table's snapshots lie ten days apart, the newest an hour ago."""
    path = local_path(table.metadata_location)
    document = json.loads(path.read_text())
    for entries in (document["snapshots"], document["snapshot-log"]):
        for place, entry in enumerate(reversed(entries)):
            entry["timestamp-ms"] = _millis(NOW - timedelta(days=10 * place, hours=1))
    for entry in document["metadata-log"]:
        entry["timestamp-ms"] = _millis(NOW - MONTH)
    document["last-updated-ms"] = _millis(NOW - timedelta(hours=1))
    path.write_text(json.dumps(document))


def plant(path: Path, at: datetime = NOW - MONTH, size: int = 3 * MIB // 2) -> Path:
    """A file that nothing refers to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    os.utime(path, (at.timestamp(),) * 2)
    return path


def age(base: Path, at: datetime) -> None:
    for path in base.rglob("*"):
        if path.is_file():
            os.utime(path, (at.timestamp(),) * 2)


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
