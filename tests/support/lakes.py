"""Lakes for tests: one by Spark with everything Iceberg knows, a small one by PyIceberg, and planted orphans."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MONTH_SECONDS = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog with tables: what PyIceberg loads it with, and the identifiers, `namespace.table`."""

    name: str
    properties: dict[str, str]
    tables: tuple[str, ...]
    base: Path

    def catalog(self) -> SqlCatalog:
        return SqlCatalog(self.name, **self.properties)


OracleLake = Lake


def build_oracle_lake(spark: SparkSession, base_dir: Path, name: str = "oracle") -> OracleLake:
    """Every kind of table there is, by Spark, and one by PyIceberg. A name serves once in a session."""
    from tests.support.oracle_tables import BUILDERS
    from tests.support.spark import add_sqlite_catalog

    base_dir.mkdir(parents=True, exist_ok=True)
    properties = add_sqlite_catalog(spark, name, base_dir / "catalog.db", f"file://{base_dir}/warehouse")
    for namespace in ("plain", "deep"):
        spark.sql(f"CREATE NAMESPACE {name}.{namespace}")
    tables = []
    for number, build in enumerate(BUILDERS):
        identifier = f"{('plain', 'deep')[number % 2]}.{build.__name__}"
        build(spark, f"{name}.{identifier}", base_dir)
        tables.append(identifier)
    lake = Lake(name, properties, (*tables, "plain.by_pyiceberg"), base_dir)
    catalog = lake.catalog()
    write_table(catalog, "plain.by_pyiceberg", partitioned=True, appends=3, delete=True)
    catalog.close()
    return lake


def small_lake(base_dir: Path, tables: Sequence[str] = ("sales.orders", "sales.items", "web.clicks")) -> Lake:
    """A SQLite catalog on local disk with a few partitioned tables, by PyIceberg only."""
    base_dir.mkdir(parents=True, exist_ok=True)
    properties = {"type": "sql", "uri": f"sqlite:///{base_dir}/catalog.db", "warehouse": f"file://{base_dir}/warehouse"}
    lake = Lake("lake", properties, tuple(tables), base_dir)
    catalog = lake.catalog()
    for identifier in tables:
        catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        write_table(catalog, identifier)
    catalog.close()
    return lake


def write_table(
    catalog: SqlCatalog,
    identifier: str,
    *,
    partitioned: bool = True,
    appends: int = 2,
    delete: bool = False,
    location: str | None = None,
    properties: dict[str, str] | None = None,
) -> Table:
    """A table (id, part) with some appends of four rows; `delete` rewrites a file without one of its rows."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "part", StringType(), required=False)
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part")) if partitioned else PartitionSpec()
    table = catalog.create_table(identifier, schema, location, spec, properties=properties or {})
    for number in range(appends):
        append(table, number * 4)
    if delete:
        table.delete("id == 1")
    return table


def append(table: Table, first: int, count: int = 4) -> None:
    """Rows first … first + count - 1, half in part a, half in part b."""
    ids = list(range(first, first + count))
    table.append(pa.table({"id": pa.array(ids, pa.int64()), "part": ["ab"[i % 2] for i in ids]}))


def data_file(table: Table, address: str, part: str = "a") -> DataFile:
    """An entry for a file of one row as a manifest names it, by address: no reader looks at the file."""
    maps = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    made = DataFile.from_args(
        _table_format_version=table.format_version,
        content=DataFileContent.DATA,
        file_path=address,
        file_format=FileFormat.PARQUET,
        partition=Record(part) if table.spec().fields else Record(),
        record_count=1,
        file_size_in_bytes=local_path(address).stat().st_size,
        **{name: {} for name in maps},
        **dict.fromkeys(("sort_order_id", "equality_ids", "key_metadata", "split_offsets")),
    )
    made.spec_id = table.spec().spec_id
    return made


def local_path(address: str) -> Path:
    """The path of a `file:` address, taken as it is stored: nothing is decoded."""
    if address.startswith("file://"):
        return Path(address.removeprefix("file://"))
    return Path(address.removeprefix("file:"))


ORPHAN_NAMES = (
    "data/{}.parquet",
    "data/part=a/{}.parquet",
    "data/part=gone/{}-deletes.parquet",
    "metadata/{}-m0.avro",
    "metadata/snap-1-1-{}.avro",
    "metadata/{}.stats",
)


def plant_orphans(
    table_location: str, names: Iterable[str] = ORPHAN_NAMES, *, age_seconds: float = MONTH_SECONDS, size: int = 64
) -> list[Path]:
    """Files nobody refers to, of that age, under a local table; `{}` in a name becomes a fresh uuid."""
    root = local_path(table_location)
    planted = []
    for name in names:
        path = root / name.format(uuid.uuid4())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0" * size)
        planted.append(path)
    age(planted, age_seconds)
    return planted


def age(paths: Iterable[Path], seconds: float = MONTH_SECONDS) -> None:
    """Make those files that much older than now."""
    then = time.time() - seconds
    for path in paths:
        os.utime(path, (then, then))


def age_everything(base: Path, seconds: float = MONTH_SECONDS) -> None:
    """Make every file below `base` that old, so that only reachability protects a live one."""
    age((path for path in base.rglob("*") if path.is_file()), seconds)


def contents(table: Table) -> list[dict[str, Any]]:
    """Every row of the current snapshot, in the order of its first column."""
    rows = table.scan().to_arrow()
    return rows.sort_by(rows.column_names[0]).to_pylist() if rows.num_rows else []
