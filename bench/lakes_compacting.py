"""Iceberg tables of many files to be made fewer, with rows as events have them. Built once, and put back before each measurement."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestampType

VERSION = 1
# Files of one table are copies of so many different ones.
DIFFERENT = 10
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "kind", StringType()),
    NestedField(4, "who", StringType()),
    NestedField(5, "amount", DoubleType()),
    NestedField(6, "count", IntegerType()),
)


@dataclass(frozen=True, slots=True)
class Heap:
    """How many tables, the files of each, the rows of each file, and the size that files should have."""

    tables: int
    files: int
    rows: int
    target: int


HEAPS = {
    "one": Heap(tables=1, files=100, rows=130_000, target=64 << 20),
    "fleet": Heap(tables=50, files=200, rows=200, target=64 << 20),
    # The same with rows in them: what a stream that commits every minute leaves.
    "fleet-rows": Heap(tables=50, files=200, rows=2_000, target=64 << 20),
    "fleet-more-rows": Heap(tables=50, files=200, rows=10_000, target=64 << 20),
    "copy": Heap(tables=1, files=32, rows=600_000, target=512 << 20),
}


@dataclass(frozen=True, slots=True)
class CompactingLake:
    """A catalog and its warehouse. Only the pointers are put back: nobody takes the old files away."""

    name: str
    heap: Heap
    base: Path
    format: str = "iceberg"

    @property
    def database(self) -> Path:
        return self.base / "catalog.db"

    @property
    def warehouse(self) -> str:
        return f"file://{self.base}/wh"

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.database}", "warehouse": self.warehouse}

    def tables(self) -> list[str]:
        return [f"db.t{number:04d}" for number in range(self.heap.tables)]

    def inputs(self, table: str) -> list[Path]:
        """The files that the table was built with."""
        return sorted((self.base / "wh" / "db" / table.partition(".")[2] / "data").glob("in-*.parquet"))

    def put_back(self) -> None:
        """The tables as they were built; what was written since is taken away."""
        with sqlite3.connect(self.base / "saved.db") as saved, sqlite3.connect(self.database) as live:
            saved.backup(live)
        for table in self.tables():
            directory = self.base / "wh" / "db" / table.partition(".")[2] / "data"
            for path in directory.iterdir():
                if not path.name.startswith("in-"):
                    path.unlink()
        os.sync()


def compacting_lake(scratch: Path, kind: str, shrink: int = 1) -> CompactingLake:
    """The lake of that kind on local disk, built if it is not there."""
    heap = HEAPS[kind]
    if shrink > 1:
        tables = max(2, heap.tables // shrink) if heap.tables > 1 else 1
        heap = replace(heap, tables=tables, files=max(6, heap.files // shrink))
    lake = CompactingLake(f"compacting_{kind.replace('-', '_')}", heap, scratch / f"compacting-{kind}-{shrink}")
    mark, wanted = lake.base / "lake.json", {"version": VERSION, **asdict(heap)}
    if mark.exists() and json.loads(mark.read_text()) == wanted:
        return lake
    began = time.monotonic()
    shutil.rmtree(lake.base, ignore_errors=True)
    lake.base.mkdir(parents=True)
    contents = [_content(number, heap.rows) for number in range(min(DIFFERENT, heap.files))]
    catalog = SqlCatalog(lake.name, **lake.properties)
    catalog.create_namespace("db")
    for table in lake.tables():
        _write(catalog, table, heap, contents)
    catalog.close()
    shutil.copy(lake.database, lake.base / "saved.db")
    mark.write_text(json.dumps(wanted))
    files, size = heap.tables * heap.files, len(contents[0]) * heap.files >> 20
    print(f"  built {lake.name}: {files} files, {size} MB a table, in {time.monotonic() - began:.0f} s", flush=True)
    return lake


def _content(number: int, rows: int) -> bytes:
    """One file as Spark would write it: one row group, zstd."""
    chance = np.random.default_rng(number)
    people = pa.array([f"user-{n:08x}" for n in chance.integers(0, 1 << 31, min(rows, 20_000))])
    columns = [
        pa.array(np.arange(number * rows, (number + 1) * rows)),
        pa.array(chance.integers(1_700_000_000_000_000, 1_800_000_000_000_000, rows)).cast(pa.timestamp("us")),
        pa.array(["view", "click", "order", "return"]).take(pa.array(chance.integers(0, 4, rows))),
        people.take(pa.array(chance.integers(0, len(people), rows))),
        pa.array(chance.random(rows)),
        pa.array(chance.integers(0, 1000, rows, dtype=np.int32)),
    ]
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(
        columns, schema=schema_to_pyarrow(SCHEMA).set(2, _text("kind", 3)).set(3, _text("who", 4))
    )
    pq.write_table(table, sink, compression="zstd", row_group_size=rows, store_schema=False)
    return sink.getvalue().to_pybytes()


def _text(name: str, number: int) -> pa.Field:
    return pa.field(name, pa.string(), metadata={b"PARQUET:field_id": str(number).encode()})


def _write(catalog: SqlCatalog, identifier: str, heap: Heap, contents: list[bytes]) -> None:
    properties = {"write.target-file-size-bytes": str(heap.target)}
    table = catalog.create_table(identifier, SCHEMA, properties=properties)
    directory = Path(table.location().removeprefix("file://")) / "data"
    directory.mkdir(parents=True, exist_ok=True)
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        for number in range(heap.files):
            content = contents[number % len(contents)]
            path = directory / f"in-{number:05d}-{uuid.uuid4()}.parquet"
            path.write_bytes(content)
            append.append_data_file(_data_file(path, heap.rows, len(content)))


def _data_file(path: Path, rows: int, size: int) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
        spec_id=0,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=[4],
    )
