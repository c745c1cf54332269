"""Lakes to measure on: many small files under few tables, built once by PyIceberg and kept in the scratch directory."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField

MONTH_SECONDS = 30 * 86_400
VERSION = 1

Put = Callable[[list[str], bytes], None]
"""Write the same bytes under each of these addresses."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many tables, and what each of them holds."""

    tables: int
    snapshots: int
    files: int  # a snapshot
    partitions: int
    orphans: int  # a table

    @property
    def data_files(self) -> int:
        return self.tables * (self.snapshots * self.files + self.orphans)


SHAPES = {
    "one": Shape(tables=1, snapshots=50, files=2_000, partitions=200, orphans=5_000),
    "million": Shape(tables=1, snapshots=50, files=20_000, partitions=200, orphans=50_000),
    "fleet100": Shape(tables=100, snapshots=5, files=20, partitions=10, orphans=15),
    "fleet1000": Shape(tables=1_000, snapshots=5, files=20, partitions=10, orphans=15),
    "tables2500": Shape(tables=2_500, snapshots=1, files=2, partitions=1, orphans=1),
    "tables10000": Shape(tables=10_000, snapshots=1, files=2, partitions=1, orphans=1),
    "s3-one": Shape(tables=1, snapshots=50, files=1_900, partitions=200, orphans=5_000),
    "s3-fleet100": Shape(tables=100, snapshots=5, files=20, partitions=10, orphans=15),
    "deletes": Shape(tables=1, snapshots=2, files=20, partitions=20, orphans=0),
    "s3-deletes": Shape(tables=1, snapshots=2, files=20, partitions=20, orphans=0),
}


@dataclass(frozen=True, slots=True)
class Lake:
    """A built lake: the catalog's name (the same for Spark and PyIceberg), its properties, its directory."""

    name: str
    shape: Shape
    properties: dict[str, str]
    base: Path
    format: str = "iceberg"

    @property
    def database(self) -> Path:
        return self.base / "catalog.db"

    @property
    def warehouse(self) -> str:
        return self.properties["warehouse"]

    def tables(self) -> list[str]:
        return [f"db.t{number:04d}" for number in range(self.shape.tables)]

    def load(self, identifier: str) -> Table:
        return SqlCatalog(self.name, **self.properties).load_table(identifier)


def local_lake(scratch: Path, kind: str, shrink: int = 1, anew: bool = False) -> Lake:
    """The lake of that kind on local disk, built if it is not there, or in any case."""
    shape = shrunk(SHAPES[kind], shrink)
    base = scratch / f"{kind}-{shrink}"
    properties = {"uri": f"sqlite:///{base}/catalog.db", "warehouse": f"file://{base}/wh"}
    lake = Lake(kind.replace("-", "_"), shape, {"type": "sql", **properties}, base)
    if anew:
        shutil.rmtree(base, ignore_errors=True)
    return build(lake, put_local)


def shrunk(shape: Shape, by: int) -> Shape:
    """A smaller one, to try the benchmark itself."""
    if by == 1:
        return shape
    if shape.tables > 1:
        return Shape(max(2, shape.tables // by), shape.snapshots, shape.files, shape.partitions, shape.orphans)
    return Shape(1, shape.snapshots, max(1, shape.files // by), shape.partitions, shape.orphans // by)


def build(lake: Lake, put: Put) -> Lake:
    """Write the lake unless a whole one of this shape is there. Built where it stays: metadata names its place."""
    mark = lake.base / "lake.json"
    wanted = {"version": VERSION, **asdict(lake.shape)}
    if mark.exists() and json.loads(mark.read_text()) == wanted:
        return lake
    began = time.monotonic()
    shutil.rmtree(lake.base, ignore_errors=True)
    lake.base.mkdir(parents=True)
    catalog = SqlCatalog(lake.name, **lake.properties)
    catalog.create_namespace("db")
    for identifier in lake.tables():
        _write_table(catalog, identifier, lake.shape, put)
    catalog.close()
    mark.write_text(json.dumps(wanted))
    print(f"  built {lake.name}: {lake.shape.data_files} data files in {time.monotonic() - began:.0f} s", flush=True)
    return lake


def _write_table(catalog: SqlCatalog, identifier: str, shape: Shape, put: Put) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "p", IntegerType(), required=False)
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    table = catalog.create_table(identifier, schema, partition_spec=spec)
    content = tiny_parquet()
    for _ in range(shape.snapshots):
        names = list(data_names(table.location(), shape.files, shape.partitions))
        put(names, content)
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for i, name in enumerate(names):
                append.append_data_file(_data_file(name, i % shape.partitions, len(content)))
    if shape.orphans:
        put(list(data_names(table.location(), shape.orphans, shape.partitions)), content)


def data_names(location: str, count: int, partitions: int) -> Iterator[str]:
    """Fresh names as a writer would choose them, spread over the partitions."""
    for i in range(count):
        yield f"{location}/data/p={i % partitions}/{i:05d}-{uuid.uuid4()}.parquet"


def tiny_parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), sink)
    return bytes(sink.getvalue().to_pybytes())


def put_local(names: list[str], content: bytes) -> None:
    """Files a month old."""
    then = time.time() - MONTH_SECONDS
    paths = [name.removeprefix("file://") for name in names]
    for directory in {os.path.dirname(path) for path in paths}:
        os.makedirs(directory, exist_ok=True)
    for path in paths:
        handle = os.open(path, os.O_CREAT | os.O_WRONLY)
        os.write(handle, content)
        os.close(handle)
        os.utime(path, (then, then))


def _data_file(name: str, partition: int, size: int) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=name,
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        record_count=1,
        file_size_in_bytes=size,
        spec_id=0,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=[],
    )
