"""Builds the demo's lake: real Iceberg tables on local disk, a SQLite catalog, and files that nobody needs any more."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType

from demo.past import committed

Ago = Callable[[float], AbstractContextManager[None]]
DAY = 86_400
CATALOG = "demo"
DAMAGED = "finance.invoices"
COUNTRIES = ("AT", "Côte d'Ivoire", "日本", "US")
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
    NestedField(3, "country", StringType(), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "month", StringType(), required=False),
)
BY_MONTH = PartitionSpec(PartitionField(5, 1000, IdentityTransform(), "month"))
BY_COUNTRY = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "country"))


@dataclass(frozen=True, slots=True)
class Planted:
    """The files put beside the tables: which must go, and which must stay, with the reason."""

    orphans: tuple[Path, ...]
    kept: dict[Path, str]


@dataclass(frozen=True, slots=True)
class DemoLake:
    """What was built, and what a right answer looks like."""

    base: Path
    catalog: SqlCatalog
    tables: tuple[str, ...]
    refused: dict[str, str]
    planted: Planted


def build(base: Path) -> DemoLake:
    """A fresh lake in the empty directory `base`: commits of the last weeks, and a month old what nobody needs."""
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{base}/catalog.db", warehouse=f"file://{base}/warehouse")
    ago = partial(days_ago, base / "warehouse")
    for namespace in ("shop", "web", "finance"):
        catalog.create_namespace(namespace)
    orders, clicks = _orders(catalog, ago), _clicks(catalog, ago)
    with ago(30):
        _sibling(catalog)
        frozen, damaged = _frozen(catalog), _damaged(catalog)
    _customers(catalog, ago)

    gone = [
        *_crashed_job(orders, 6),
        *_failed_commits(orders, 3),
        *_crashed_job(clicks, 4),
        *_failed_commits(clicks, 2),
    ]
    kept = {path: "refused: the owner set gc.enabled=false" for path in _crashed_job(frozen, 2)}
    kept |= {path: "refused: a manifest is damaged, so what is live is unknown" for path in _crashed_job(damaged, 2)}
    hidden = _root(orders) / "data" / "_temporary" / "part-00000.parquet"
    young = [_root(orders) / "data" / "month=2024-01" / f"{uuid.uuid4()}.parquet" for _ in range(2)]
    for path in (hidden, *young):
        _write_rows(path)
    kept |= {hidden: "protected: a hidden name, some tool's own work area"}
    kept |= {path: "too new: it may belong to a writer that has not committed yet" for path in young}

    a_month_ago = time.time() - 30 * DAY
    for path in (*gone, *kept.keys() - set(young)):
        os.utime(path, (a_month_ago, a_month_ago))
    return DemoLake(
        base,
        catalog,
        tuple(sorted(".".join(name) for space in catalog.list_namespaces() for name in catalog.list_tables(space))),
        {"finance.ledger": "its owner set gc.enabled=false", DAMAGED: "a manifest is cut in half"},
        Planted(tuple(gone), kept),
    )


def days_ago(warehouse: Path, days: float) -> AbstractContextManager[None]:
    """What is committed meanwhile was committed so many days ago."""
    return committed(datetime.now(UTC) - timedelta(days=days), warehouse)


def _orders(catalog: SqlCatalog, ago: Ago) -> Table:
    """Partitioned by month, rows deleted, a tag on the past and a branch with rows of its own."""
    with ago(60):
        table = catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_MONTH)
    for batch, days in enumerate((58, 51, 44, 37)):
        with ago(days):
            table.append(_rows(batch * 300, 300))
    with ago(36):
        table.manage_snapshots().create_tag(_current(table), "year-end").commit()
    with ago(21):
        table.delete("id < 40")
    with ago(15):
        table.manage_snapshots().create_branch(_current(table), "experiment").commit()
        table.append(_rows(9_000, 100), branch="experiment")
    with ago(2):
        table.append(_rows(1_200, 300))
    return table


def _clicks(catalog: SqlCatalog, ago: Ago) -> Table:
    """Partitioned by a text whose values need escaping in a path."""
    with ago(33):
        table = catalog.create_table("web.clicks", SCHEMA, partition_spec=BY_COUNTRY)
    for batch in range(8):
        with ago(32 - 4 * batch):
            table.append(_rows(batch * 200, 200))
    with ago(1):
        table.delete("country == 'US' and id < 400")
    return table


def _customers(catalog: SqlCatalog, ago: Ago) -> None:
    """Not partitioned, overwritten once: the old rows live on in the older snapshot."""
    with ago(30):
        table = catalog.create_table("shop.customers", SCHEMA, partition_spec=UNPARTITIONED_PARTITION_SPEC)
        table.append(_rows(0, 500))
    with ago(9):
        table.overwrite(_rows(0, 450))


def _sibling(catalog: SqlCatalog) -> None:
    """A table whose directory begins with another one's name. It has no orphans, and months of 2024 and of now."""
    table = catalog.create_table("shop.orders_v2", SCHEMA, partition_spec=BY_MONTH)
    table.append(_rows(0, 200))
    table.append(_rows(1_000, 400, date.today() - timedelta(days=90)))


def _frozen(catalog: SqlCatalog) -> Table:
    """A table whose owner wants nobody to clean it."""
    table = catalog.create_table("finance.ledger", SCHEMA, properties={"gc.enabled": "false"})
    table.append(_rows(0, 200))
    return table


def _damaged(catalog: SqlCatalog) -> Table:
    """A table that reads well today, but whose older snapshot has a manifest cut in half."""
    table = catalog.create_table(DAMAGED, SCHEMA)
    table.append(_rows(0, 200))
    table.append(_rows(200, 200))
    old = {manifest.manifest_path for snapshot in table.snapshots() for manifest in snapshot.manifests(table.io)}
    table.overwrite(_rows(0, 300))
    current = table.current_snapshot()
    assert current is not None
    only_old = sorted(old - {manifest.manifest_path for manifest in current.manifests(table.io)})
    path = Path(only_old[0].removeprefix("file://"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return table


def _rows(first: int, count: int, since: date = date(2024, 1, 1)) -> pa.Table:
    """Rows first … first + count - 1 of ninety days, the same on every run."""
    draw = random.Random(first)
    ids = range(first, first + count)
    days = [since + timedelta(days=i % 90) for i in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array(days, pa.date32()),
            "country": pa.array([COUNTRIES[i % len(COUNTRIES)] for i in ids]),
            "amount": pa.array([round(draw.uniform(1, 500), 2) for _ in ids]),
            "month": pa.array([f"{day:%Y-%m}" for day in days]),
        }
    )


def _crashed_job(table: Table, files: int) -> Sequence[Path]:
    """Data files of a job that died before its commit: full of good rows, and no snapshot knows them."""
    directories = sorted(path for path in (_root(table) / "data").rglob("*") if path.is_dir()) or [
        _root(table) / "data"
    ]
    paths = [directories[i % len(directories)] / f"0000{i}-{i}-{uuid.uuid4()}.parquet" for i in range(files)]
    for path in paths:
        _write_rows(path)
    return paths


def _failed_commits(table: Table, commits: int) -> Sequence[Path]:
    """Manifests and manifest lists of commits that lost their race."""
    metadata = _root(table) / "metadata"
    real = sorted(metadata.glob("snap-*.avro"))[0].read_bytes()
    paths = []
    for attempt in range(commits):
        name = uuid.uuid4()
        paths += [metadata / f"{name}-m0.avro", metadata / f"snap-{4_000_000 + attempt}-0-{name}.avro"]
    for path in paths:
        path.write_bytes(real)
    return paths


def _write_rows(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(_rows(50_000, 20), path)


def _current(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def _root(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))
