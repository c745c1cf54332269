"""Iceberg's manifest lists and manifests as rows: which fields matter, under every name they have had, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.formats.iceberg.metadata.names import NAMES
from lakewarden.formats.iceberg.metadata.strangers import FileReads, Recogniser
from lakewarden.model.avro_frames import header
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError
from lakewarden.model.partitions import partition_key
from lakewarden.model.ports import Blobs, Part, ReadAvro, Rows, each_part
from lakewarden.model.table import TableState

# Column of ours -> the names the format has used for it. The first that the file has is taken.
LIST_FIELDS = {
    "path": ("manifest_path",),
    "length": ("manifest_length",),
    "content": ("content",),
    "added": ("added_files_count", "added_data_files_count"),
    "existing": ("existing_files_count", "existing_data_files_count"),
    "deleted": ("deleted_files_count", "deleted_data_files_count"),
    "sequence": ("sequence_number",),
    "snapshot": ("added_snapshot_id",),
}
MANIFEST_FIELDS = {
    "path": ("data_file.file_path",),
    "status": ("status",),
    "content": ("data_file.content",),
    "size": ("data_file.file_size_in_bytes",),
}
PARTITION_FIELDS = {
    "status": ("status",),
    "snapshot": ("snapshot_id",),
    "content": ("data_file.content",),
    "records": ("data_file.record_count",),
    "bytes": ("data_file.file_size_in_bytes",),
    "part": ("data_file.content_size_in_bytes",),
}
FILE_FIELDS = {
    "path": ("data_file.file_path",),
    "status": ("status",),
    "content": ("data_file.content",),
    "size": ("data_file.file_size_in_bytes",),
    "rows": ("data_file.record_count",),
    "about": ("data_file.referenced_data_file",),
    "sequence": ("sequence_number",),
}
REQUIRED = frozenset({"path", "length", "status", "records", "bytes"})
# A manifest says in its header by which spec its partitions are to be read.
SPEC = b"partition-spec-id"
DELETED = 2  # the status of an entry; added (1) and existing (0) entries are live
DATA, POSITIONS, EQUALITY = 0, 1, 2  # what a file has: rows, or positions or values of rows that are deleted
HELD = ("rows", "deletes", "bytes")


class IcebergReader:
    """The Avro side of the format, carried to executors."""

    format = "iceberg"
    names = NAMES
    by_name = False
    keeps_deleted = False

    def recogniser(
        self, states: Iterable[TableState], since: datetime, abandoned: Collection[str]
    ) -> Callable[[str, str, FileReads], dict[str, object] | None]:
        """What tells whose an unknown metadata file is; None for one that is simply old."""
        return Recogniser.of([state for state in states if state.format == self.format], since, abandoned)

    def manifests(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return avro(blobs, list_columns).each(_manifests)

    def entries(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return avro(blobs, manifest_columns).each(_entries)

    def partitions(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return _by_spec(avro(blobs, partition_columns), blobs, _by_partition)


def data_files(blobs: Blobs, avro: ReadAvro) -> Rows:
    """Every live file with what compaction asks of it (`model.compaction.RewriteWorker`)."""
    return _by_spec(avro(blobs, file_columns), blobs, _files)


def _by_spec(found: Rows, blobs: Blobs, change: Callable[[pa.Table, Any, Mapping[int, int]], Part]) -> Rows:
    """The rows after `change`, which is told the spec of each manifest. One that does not say its spec is an error."""
    errors, specs = dict(found.errors), dict[int, int]()
    for index in {index for part in found.parts for index in part.owner.tolist()} - errors.keys():
        try:
            specs[index] = _spec(blobs[index])
        except IncompleteManifestError as error:
            errors[index] = error

    def changed(part: Part) -> Part:
        whole = np.isin(part.owner, list(specs))
        return change(part.table.filter(pa.array(whole)), part.owner[whole], specs)

    return Rows(each_part(found.parts, errors, changed), found.counts, errors, found.doubts)


def list_columns(names: Iterable[str]) -> Mapping[str, str]:
    return _pick(LIST_FIELDS, names, "manifest list")


def manifest_columns(names: Iterable[str]) -> Mapping[str, str]:
    return _pick(MANIFEST_FIELDS, names, "manifest")


def partition_columns(names: Iterable[str]) -> Mapping[str, str]:
    """The status, the snapshot, what the file holds, and the values p0, p1, … of the partition in the order of its spec."""
    present = list(names)
    fields = [name for name in present if re.fullmatch(r"data_file\.partition\.[^.]+", name)]
    return _pick(PARTITION_FIELDS, present, "manifest") | {f"p{place}": name for place, name in enumerate(fields)}


def file_columns(names: Iterable[str]) -> Mapping[str, str]:
    """What is said of each file, and the values p0, p1, … of its partition."""
    present = list(names)
    return {**partition_columns(present), **_pick(FILE_FIELDS, present, "manifest")}


def _pick(wanted: Mapping[str, tuple[str, ...]], names: Iterable[str], what: str) -> dict[str, str]:
    present = set(names)
    picked: dict[str, str] = {}
    for column, options in wanted.items():
        found = next((name for name in options if name in present), None)
        if found is not None:
            picked[column] = found
        elif column in REQUIRED:
            raise UnsupportedTableError(f"a {what} has no field {options[0]}")
    return picked


def _manifests(table: pa.Table) -> pa.Table:
    live = pc.add(_counts(table, "added"), _counts(table, "existing"))
    return pa.table(
        {
            "path": table["path"],
            "length": table["length"],
            "rows": pc.add(live, _counts(table, "deleted")),
            "live": live,
            "content": _content(table),
            "sequence": _counts(table, "sequence"),
            "snapshot": _counts(table, "snapshot"),
        }
    )


def _entries(table: pa.Table) -> pa.Table:
    # An entry that does not say what it is counts as live: its file stays.
    deleted = pc.fill_null(pc.greater_equal(table["status"], DELETED), False)
    columns = {"path": table["path"], "deleted": deleted, "content": _content(table)}
    return pa.table(columns | {name: table[name] for name in ("size",) if name in table.column_names})


def _counts(table: pa.Table, name: str) -> Any:
    return table[name].cast(pa.int64()) if name in table.column_names else pa.nulls(table.num_rows, pa.int64())


def _content(table: pa.Table) -> Any:
    """0 for data, 1 for deletes; files of version 1 do not say, and have no deletes."""
    return table["content"] if "content" in table.column_names else pa.repeat(0, table.num_rows)


def _spec(blob: bytes | Exception) -> int:
    try:
        return int(header(blob)[0][SPEC]) if isinstance(blob, bytes) else int("")
    except (LookupError, ValueError, MemoryError) as error:
        raise IncompleteManifestError("does not say by which spec its partitions are to be read") from error


def _by_partition(entries: pa.Table, owner: Any, specs: Mapping[int, int]) -> Part:
    """The live entries of each manifest by partition and commit. Deleted ones name what is gone already."""
    names = [name for name in entries.column_names if name[0] == "p" and name[1:].isdigit()]
    snapshots = entries["snapshot"] if "snapshot" in entries.column_names else pa.nulls(entries.num_rows, pa.int64())
    rows = pa.table(
        {
            "owner": pa.array(owner),
            "snapshot": snapshots,
            **_held(entries),
            **{name: _number(entries[name]) for name in names},
        }
    ).filter(pc.fill_null(pc.less(entries["status"], DELETED), True))
    sums = rows.group_by(["owner", "snapshot", *names]).aggregate(
        [([], "count_all"), *((name, "sum") for name in HELD)]
    )
    owners = sums["owner"].to_numpy()
    values = zip(*(sums[name].to_pylist() for name in names), strict=True) if names else [()] * sums.num_rows
    keys: dict[tuple[int, tuple[Any, ...]], bytes] = {}
    partitions = []
    for spec, some in zip((specs[index] for index in owners.tolist()), values, strict=True):
        if (spec, some) not in keys:
            keys[spec, some] = partition_key(spec, some)
        partitions.append(keys[spec, some])
    table = pa.table(
        {
            "partition": pa.array(partitions, pa.binary()),
            "files": sums["count_all"],
            **{name: sums[f"{name}_sum"].cast(pa.int64()) for name in HELD},
            "snapshot": sums["snapshot"].cast(pa.int64()),
        }
    )
    return Part(table, owners)


def _held(entries: pa.Table) -> dict[str, Any]:
    """What the file of each entry holds: rows, positions of deleted rows, bytes."""
    records, size = (entries[name].cast(pa.int64()) for name in ("records", "bytes"))
    if records.null_count or size.null_count:
        raise ValueError("an entry does not say how many records or bytes its file has")
    # Imports of old versions wrote -1 where they did not count. Such a file is not empty.
    records = pc.if_else(pc.less(records, 0), 1, records)
    content = _content(entries)
    # A vector is a part of a file that may hold many.
    part = pc.coalesce(_counts(entries, "part"), size)
    return {
        "rows": pc.if_else(pc.equal(content, DATA), records, 0),
        "deletes": pc.if_else(pc.equal(content, POSITIONS), records, 0),
        "bytes": part,
    }


def _files(entries: pa.Table, owner: Any, specs: Mapping[int, int]) -> Part:
    """The live files, each with the key of its partition."""
    live = pc.fill_null(pc.less(entries["status"], DELETED), True)
    rows, owner = entries.filter(live), owner[live.to_numpy()]
    names = [name for name in entries.column_names if name[0] == "p" and name[1:].isdigit()]
    # Of each combination of spec and values the key is made once: files are many, partitions are few.
    columns = [
        pa.array([specs[index] for index in owner.tolist()], pa.int64()),
        *(_number(rows[name]) for name in names),
    ]
    numbered = pa.table({str(place): column for place, column in enumerate(columns)})
    distinct = numbered.group_by(numbered.column_names).aggregate([])
    keys = [
        partition_key(found[0], found[1:]) for found in zip(*(c.to_pylist() for c in distinct.columns), strict=True)
    ]
    number = _places(numbered, distinct)
    blank = pa.nulls(rows.num_rows)
    content = _content(rows)
    table = pa.table(
        {
            "partition": pa.array(keys, pa.binary()).take(number),
            "content": content,
            "path": rows["path"],
            # A vector is a part of a file that may hold many.
            "size": pc.coalesce(_counts(rows, "part"), rows["size"].cast(pa.int64())),
            "rows": rows["rows"],
            "about": rows["about"] if "about" in rows.column_names else blank.cast(pa.string()),
            "sequence": _counts(rows, "sequence"),
            "snapshot": _counts(rows, "snapshot"),
            # Written without a partition, deletes by equality reach the files of every spec.
            "everywhere": pc.and_(pc.equal(content, EQUALITY), not names),
        }
    )
    return Part(table, owner)


def _places(rows: pa.Table, distinct: pa.Table) -> pa.Array:
    """For each row the place among the distinct ones."""
    found: Any = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    wanted: Any = pa.repeat(pa.scalar(0, pa.int64()), distinct.num_rows)
    for name in rows.column_names:
        values = pc.unique(distinct[name])
        mine, theirs = (
            pc.index_in(table[name], value_set=values, skip_nulls=False).cast(pa.int64()) for table in (rows, distinct)
        )
        # Checked: numbers that ran over would put files of two partitions into one. Numbered anew after each column, they are
        # no more than there are distinct rows, however many columns there are.
        found, wanted = (
            _whole(pc.add_checked(pc.multiply_checked(so_far, len(values)), more))
            for so_far, more in ((found, mine), (wanted, theirs))
        )
        numbers = pc.unique(wanted)
        found, wanted = (pc.index_in(some, value_set=numbers).cast(pa.int64()) for some in (found, wanted))
    return pc.index_in(found, value_set=wanted)


def _whole(numbers: Any) -> pa.Array:
    return numbers if isinstance(numbers, pa.Array) else numbers.combine_chunks()


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as the numbers they are stored as."""
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column
