"""Iceberg tables with a long history: each commit adds files and drops some of the one before. Built by Iceberg itself."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lakes import put_local, tiny_parquet
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = 1


@dataclass(frozen=True, slots=True)
class History:
    """How many tables, commits a table, files added and dropped by each, and how many snapshots expiry leaves."""

    tables: int
    snapshots: int
    added: int
    dropped: int
    kept: int

    @property
    def data_files(self) -> int:
        return self.tables * self.snapshots * self.added

    @property
    def expired(self) -> int:
        return self.tables * (self.snapshots - self.kept)


HISTORIES = {
    "fleet100": History(tables=100, snapshots=50, added=6, dropped=3, kept=5),
    "one": History(tables=1, snapshots=2_000, added=50, dropped=25, kept=100),
}


@dataclass(frozen=True, slots=True)
class ExpiringLake:
    """A catalog and its warehouse, kept once as they were built and put back before every measurement."""

    name: str
    history: History
    base: Path
    format: str = "iceberg"

    @property
    def database(self) -> Path:
        return self.base / "catalog.db"

    @property
    def directory(self) -> Path:
        return self.base / "wh"

    @property
    def warehouse(self) -> str:
        return f"file://{self.directory}"

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.database}", "warehouse": self.warehouse}

    def tables(self) -> list[str]:
        return [f"db.t{number:04d}" for number in range(self.history.tables)]

    def files(self) -> set[str]:
        """Every file but the metadata documents: the peer lets those lie that a table's log has forgotten."""
        found = (path for path in self.directory.rglob("*") if path.is_file())
        return {str(path) for path in found if not path.name.endswith((".json", ".crc"))}

    def put_back(self) -> None:
        """The lake as it was built. Files are linked, none is ever changed; the database is copied into its place."""
        shutil.rmtree(self.directory, ignore_errors=True)
        subprocess.run(["cp", "-al", str(self.base / "saved"), str(self.directory)], check=True)
        with sqlite3.connect(self.base / "saved.db") as saved, sqlite3.connect(self.database) as live:
            saved.backup(live)
        # The hundred thousand links are on disk before a clock runs: whoever asks for a durable write first would pay.
        os.sync()


def expiring_lake(spark: SparkSession, scratch: Path, kind: str, shrink: int = 1) -> ExpiringLake:
    """The lake of that kind on local disk, built if it is not there."""
    history = _shrunk(HISTORIES[kind], shrink)
    lake = ExpiringLake(f"expiring_{kind}", history, scratch / f"expiring-{kind}-{shrink}")
    mark, wanted = lake.base / "lake.json", {"version": VERSION, **asdict(history)}
    built = mark.exists() and json.loads(mark.read_text()) == wanted
    if not built:
        shutil.rmtree(lake.base, ignore_errors=True)
        lake.directory.mkdir(parents=True)
    add_sqlite_catalog(spark, lake.name, lake.database, lake.warehouse)
    if built:
        return lake
    began = time.monotonic()
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.name}.db")
    for table in lake.tables():
        _write(spark, f"{lake.name}.{table}", history)
    subprocess.run(["cp", "-al", str(lake.directory), str(lake.base / "saved")], check=True)
    shutil.copy(lake.database, lake.base / "saved.db")
    mark.write_text(json.dumps(wanted))
    print(f"  built {lake.name}: {history.data_files} data files in {time.monotonic() - began:.0f} s", flush=True)
    return lake


def _shrunk(history: History, by: int) -> History:
    if history.tables > 1:
        return replace(history, tables=max(2, history.tables // by))
    return replace(history, snapshots=max(10, history.snapshots // by), kept=max(2, history.kept // by))


def _write(spark: SparkSession, name: str, history: History) -> None:
    """One table. Java's metadata files are deleted as it goes: two thousand of two megabytes help nobody."""
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p INT) USING iceberg PARTITIONED BY (p) TBLPROPERTIES "
        "('format-version'='2', 'write.metadata.delete-after-commit.enabled'='true', "
        "'write.metadata.previous-versions-max'='10')"
    )
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    location, content = str(table.location()), tiny_parquet()
    before: list[Any] = []
    for number in range(history.snapshots):
        paths = list(_names(location, number, history.added))
        put_local(paths, content)
        files = [_data_file(jvm, table, path, number, len(content)) for path in paths]
        change = table.newOverwrite()
        for file in files:
            change.addFile(file)
        for file in before[: history.dropped]:
            change.deleteFile(file)
        change.commit()
        before = files


def _names(location: str, number: int, count: int) -> Iterator[str]:
    for i in range(count):
        yield f"{location}/data/p={number}/{i:05d}-{uuid.uuid4()}.parquet"


def _data_file(jvm: Any, table: Any, path: str, partition: int, size: int) -> Any:
    builder = jvm.org.apache.iceberg.DataFiles.builder(table.spec())
    described = builder.withPath(path).withFormat("parquet").withPartitionPath(f"p={partition}")
    return described.withFileSizeInBytes(size).withRecordCount(1).build()
