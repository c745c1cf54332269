"""Paimon lakes to measure on: long histories over many small files, committed by pypaimon and kept in the scratch directory.

A few data files are written; the others are hard links to them under names of their own. The commits are real: Java and
pypaimon read every snapshot.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import uuid
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa

MONTH_SECONDS = 30 * 86_400
VERSION = 1
WRITERS = 2
COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])


@dataclass(frozen=True, slots=True)
class PaimonShape:
    """How many tables, and each one's history: every snapshot adds files and drops some of the one before."""

    tables: int
    snapshots: int
    kept: int  # snapshots that expiry leaves
    added: int  # files a snapshot
    dropped: int  # files a snapshot
    partitions: int
    orphans: int  # a table

    @property
    def data_files(self) -> int:
        first = max(self.added, self.partitions)
        return self.tables * (first + (self.snapshots - 1) * self.added + self.orphans)

    @property
    def released(self) -> int:
        """Data files that nothing needs after the expiry: what the commits up to the first kept snapshot dropped."""
        return self.tables * (self.snapshots - self.kept) * self.dropped


SHAPES = {
    "one": PaimonShape(1, snapshots=50, kept=10, added=2_000, dropped=1_250, partitions=100, orphans=5_000),
    "fleet100": PaimonShape(100, snapshots=50, kept=10, added=2, dropped=1, partitions=10, orphans=15),
}


@dataclass(frozen=True, slots=True)
class PaimonLake:
    """The warehouse of a filesystem catalog. Nothing in it names its place, so that a copy is a lake like it."""

    name: str
    shape: PaimonShape
    base: Path
    format: str = "paimon"

    @property
    def directory(self) -> Path:
        return self.base / "wh"

    @property
    def warehouse(self) -> str:
        return f"file://{self.directory}"

    @property
    def properties(self) -> dict[str, str]:
        return {"warehouse": self.warehouse}

    def locations(self) -> list[Path]:
        return [self.directory / "db.db" / f"t{number:04d}" for number in range(self.shape.tables)]

    def files(self) -> set[str]:
        """Every file of a table, by its place in the warehouse."""
        top = len(str(self.directory)) + 1
        found = (f"{place}/{name}"[top:] for place, _, names in os.walk(self.directory) for name in names)
        return {name for name in found if ".lakewarden" not in name}

    def copied(self, base: Path) -> PaimonLake:
        """The same lake in another place. Linked, but for what is overwritten in place: snapshots and their hints."""
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        copy = replace(self, base=base)
        subprocess.run(["cp", "-al", str(self.directory), str(copy.directory)], check=True)
        for mine, other in zip(self.locations(), copy.locations(), strict=True):
            shutil.rmtree(other / "snapshot")
            shutil.copytree(mine / "snapshot", other / "snapshot")
        return copy


def paimon_lake(scratch: Path, kind: str, shrink: int = 1) -> PaimonLake:
    """The lake of that kind on local disk, built if it is not there."""
    shape = _shrunk(SHAPES[kind], shrink)
    lake = PaimonLake(f"paimon_{kind}", shape, scratch / f"paimon-{kind}-{shrink}")
    mark, wanted = lake.base / "lake.json", {"version": VERSION, **asdict(shape)}
    if mark.exists() and json.loads(mark.read_text()) == wanted:
        return lake
    began = time.monotonic()
    shutil.rmtree(lake.base, ignore_errors=True)
    lake.directory.mkdir(parents=True)
    _catalog(lake).create_database("db", True)
    with ProcessPoolExecutor(min(WRITERS, shape.tables), get_context("spawn")) as pool:
        for _ in pool.map(_write_table, [lake] * shape.tables, range(shape.tables)):
            pass
    mark.write_text(json.dumps(wanted))
    print(f"  built {lake.name}: {shape.data_files} data files in {time.monotonic() - began:.0f} s", flush=True)
    return lake


def _shrunk(shape: PaimonShape, by: int) -> PaimonShape:
    if shape.tables > 1:
        return replace(shape, tables=max(2, shape.tables // by)) if by > 1 else shape
    return replace(shape, added=shape.added // by, dropped=shape.dropped // by, orphans=shape.orphans // by)


def _catalog(lake: PaimonLake) -> Any:
    from pypaimon import CatalogFactory

    return CatalogFactory.create(dict(lake.properties))


def _write_table(lake: PaimonLake, number: int) -> None:
    """One table: a real commit, commits of links, links that no commit knows, all of it a month old."""
    from pypaimon import Schema

    catalog, shape, location = _catalog(lake), lake.shape, lake.locations()[number]
    name = f"db.{location.name}"
    schema = Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"], options={"bucket": "-1"})
    catalog.create_table(name, schema, False)
    table = catalog.get_table(name)
    writer = table.new_batch_write_builder().new_write()
    writer.write_arrow(pa.table([pa.array(range(shape.partitions), kind) for kind in COLUMNS.types], schema=COLUMNS))
    first = writer.prepare_commit()
    writer.close()
    history = _History(table, location, first)
    history.commit([(message, message.new_files[0]) for message in first], shape.added - len(first), 0)
    for _ in range(shape.snapshots - 1):
        history.commit([], shape.added, shape.dropped)
    for _ in range(shape.orphans):
        history.link()
    then = time.time() - MONTH_SECONDS
    for place, _, names in os.walk(location):
        for file in names:
            os.utime(f"{place}/{file}", (then, then))


class _History:
    """The commits of one table, by pypaimon's own committer, without its search for conflicts: nobody else writes."""

    def __init__(self, table: Any, location: Path, first: list[Any]) -> None:
        self._table = table
        self._location = location
        self._first = first
        self._links = 0
        self._last: list[Any] = []
        self._commits = 0

    def link(self) -> tuple[Any, Any]:
        """One more data file, in the next partition: the message that wrote its content, and its own description."""
        message = self._first[self._links % len(self._first)]
        self._links += 1
        content, name = message.new_files[0], f"data-{uuid.uuid4()}-0.parquet"
        partition = self._location / f"p={message.partition[0]}" / f"bucket-{message.bucket}"
        os.link(partition / content.file_name, partition / name)
        return message, replace(content, file_name=name, file_path=str(partition / name))

    def commit(self, written: list[Any], links: int, dropped: int) -> None:
        """A snapshot that adds files, and drops some that the one before added."""
        added = written + [self.link() for _ in range(links)]
        entries = [self._entry(0, *one) for one in added] + [self._entry(1, *one) for one in self._last[:dropped]]
        self._commits += 1
        committer = self._table.new_batch_write_builder().new_commit().file_store_commit
        committer._try_commit("OVERWRITE" if dropped else "APPEND", self._commits, lambda _: entries)
        self._last = added

    def _entry(self, kind: int, message: Any, file: Any) -> Any:
        from pypaimon.manifest.schema.manifest_entry import ManifestEntry
        from pypaimon.table.row.generic_row import GenericRow

        partition = GenericRow(list(message.partition), self._table.partition_keys_fields)
        return ManifestEntry(kind, partition, message.bucket, self._table.total_buckets, file)
