"""Tables of the lakes in doubt: small, quickly made, each with files of every fate that a job can bring about."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.formats.paimon.histories import backdate as backdate_paimon
from tests.formats.paimon.reading import open_table
from tests.formats.paimon.story import COLUMNS, DATABASE, Story
from tests.jobs.snapshot_expiry.expiry_site import HOUR_MS, backdate
from tests.support.lakes import age, data_file, local_path

LONG_AGO, FAR_AHEAD = "2020-01-01", "2099-01-01"
"""Two partitions: one that partition expiry drops, one that it keeps."""

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "part", StringType(), required=False))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
ROW = pa.table({"id": pa.array([1], pa.int64()), "part": [LONG_AGO]})

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """One table of a lake: what its catalog calls it, its own directory, and the directory that takes its data."""

    catalog: str
    namespace: str
    name: str
    format: str
    home: Path
    data: Path
    store: Path
    """What the catalog is: a SQLite file, or a Paimon warehouse."""

    @property
    def identifier(self) -> str:
        return f"{self.catalog}.{self.namespace}.{self.name}"

    @property
    def row(self) -> tuple[str, str, str]:
        """The key of its row in a SQL catalog."""
        return self.catalog, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Made:
    """Three files that only old snapshots need: expiry releases them."""

    lent: Path
    """Another table needs it."""
    kept: Path
    """Another table may come to need it."""
    gone: Path
    """Nobody else will ever need it."""


def write_file(path: Path) -> Path:
    """A month-old data file that nothing refers to yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROW, path)
    age([path])
    return path


def plant(beside: Path) -> Path:
    """A month-old file beside another one, under a name that either format may give to data."""
    return write_file(beside.with_name(f"data-{uuid.uuid4()}-0.parquet"))


def make_iceberg(catalog: SqlCatalog, member: Member, borrowed: Iterable[Path] = (), spare: int = 0) -> Made:
    """Two snapshots: the first is ten hours older, the second has a file to expire, one to keep, and the borrowed ones.

    `spare` more files are needed by the first snapshot alone.
    """
    properties = {} if member.data.is_relative_to(member.home) else {"write.data.path": f"file://{member.data}"}
    location = f"file://{member.home}"
    table = catalog.create_table((member.namespace, member.name), SCHEMA, location, BY_PART, properties=properties)
    names = ("lent", "kept", "gone", "aged", "new")
    lent, kept, gone, aged, new = (write_file(member.data / f"{member.name}-{name}.parquet") for name in names)
    going = [lent, kept, gone, *(write_file(member.data / f"{member.name}-spare-{n}.parquet") for n in range(spare))]
    with table.transaction() as change, change.update_snapshot().fast_append() as first:
        for path in (*going, aged):
            first.append_data_file(data_file(table, f"file://{path}", LONG_AGO))
    with table.transaction() as change, change.update_snapshot().overwrite() as second:
        for path in going:
            second.delete_data_file(data_file(table, f"file://{path}", LONG_AGO))
        for path in (new, *borrowed):
            second.append_data_file(data_file(table, f"file://{path}", FAR_AHEAD))
    backdate(table, int(time.time() * 1000), 10 * HOUR_MS)
    return Made(lent, kept, gone)


def staged(table: Table, path: Path) -> Document:
    """The snapshot of a commit that takes a file in, written whole but for the metadata: a slow writer's."""
    change = table.transaction()
    with change.update_snapshot().fast_append() as added:
        added.append_data_file(data_file(table, f"file://{path}", FAR_AHEAD))
    snapshot = change.table_metadata.current_snapshot()
    assert snapshot is not None
    document: Document = json.loads(snapshot.model_dump_json(by_alias=True, exclude_none=True))
    return document


def pointer_of(member: Member) -> str | None:
    """Where the catalog says that the table's metadata is, if it says anything."""
    if not member.store.exists() or not member.store.stat().st_size:
        return None
    with closing(sqlite3.connect(member.store)) as database:
        query = (
            "SELECT metadata_location FROM iceberg_tables WHERE (catalog_name, table_namespace, table_name) = (?, ?, ?)"
        )
        found = database.execute(query, member.row).fetchone()
    return found[0] if found else None


def commit_iceberg(member: Member, snapshot: Document) -> None:
    """The slow writer's commit: the next metadata, and the catalog's pointer to it."""
    pointer = pointer_of(member)
    assert pointer is not None
    path = local_path(pointer)
    document = json.loads(path.read_bytes())
    now = int(time.time() * 1000)
    number = snapshot["snapshot-id"]
    document["snapshots"].append({**snapshot, "timestamp-ms": now})
    document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"] = number
    document["snapshot-log"].append({"snapshot-id": number, "timestamp-ms": now})
    document["metadata-log"].append({"metadata-file": pointer, "timestamp-ms": document["last-updated-ms"]})
    document["last-sequence-number"] = snapshot["sequence-number"]
    document["last-updated-ms"] = now
    following = path.with_name(f"{int(path.name[:5]) + 1:05}-{uuid.uuid4()}.metadata.json")
    following.write_text(json.dumps(document))
    with closing(sqlite3.connect(member.store)) as database, database:
        database.execute(
            "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
            " WHERE (catalog_name, table_namespace, table_name) = (?, ?, ?)",
            (f"file://{following}", pointer, *member.row),
        )


def make_paimon(member: Member) -> Made:
    """The same for Paimon."""
    options: Mapping[str, str] = {}
    if not member.data.is_relative_to(member.home):
        options = {
            "data-file.external-paths": f"file://{member.data}",
            "data-file.external-paths.strategy": "round-robin",
        }
    before = set(data_files(member))
    story = Story.begin(member.store, member.name, partition_keys=["dt"], options=options)
    story.append([(LONG_AGO, 1, "lent"), (FAR_AHEAD, 2, "kept")])
    lent, kept = sorted(set(data_files(member)) - before)
    story.overwrite({}, [(LONG_AGO, 6, "gone")])
    (gone,) = set(data_files(member)) - before - {lent, kept}
    story.overwrite({}, [(LONG_AGO, 3, "aged"), (FAR_AHEAD, 4, "new")])
    backdate_paimon(story.end("a table in doubt"), 10)
    return Made(lent, kept, gone)


def data_files(member: Member) -> list[Path]:
    """Every data file in the directory that takes a Paimon table's data."""
    return sorted(path for path in member.data.rglob("data-*") if path.is_file())


def uncommitted(member: Member) -> tuple[Path, Any]:
    """A file that a slow Paimon writer has written and not committed, a month old; and what the writer would commit."""
    before = set(data_files(member))
    write = open_table(member.home).new_batch_write_builder().new_write()
    write.write_arrow(pa.table([[FAR_AHEAD], pa.array([5], pa.int32()), ["late"]], schema=COLUMNS))
    messages = write.prepare_commit()
    write.close()
    (late,) = set(data_files(member)) - before
    age([late])
    return late, messages


def commit_paimon(member: Member, messages: Any) -> None:
    """The slow writer's commit."""
    made = open_table(member.home).new_batch_write_builder().new_commit()
    made.commit(messages)
    made.close()


def tag(member: Member, snapshot: bytes) -> None:
    """A tag made from a backup of a snapshot that has expired: its files are needed again."""
    path = member.home / "tag" / "tag-back"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(snapshot)


def paimon_home(warehouse: Path, name: str) -> Path:
    return warehouse / f"{DATABASE}.db" / name
