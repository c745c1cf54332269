"""What each partition of each table holds: added minus deleted files, and the newest of them. No file name travels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.errors import IncompleteManifestError
from lakewarden.model.partitions import PartitionFiles, partition_key
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.avro.container import header_of
from lakewarden.pipeline.read.avro.decode import decode_files
from lakewarden.pipeline.read.manifests import (
    ADDED,
    BYTES_AT_ONCE,
    DELETED,
    NOTE,
    ReadTask,
    error_note,
    read_lists,
    sized,
)
from lakewarden.pipeline.read.to_read import ToRead

# One row per table and partition of some manifests; in place of a partition, a task's note.
PARTITIONS = pa.schema(
    [
        (c.TABLE, pa.int32()),
        ("partition", pa.binary()),
        ("files", pa.int64()),
        ("newest", pa.int64()),
        ("unknown", pa.int64()),
        ("note", pa.string()),
    ]
)
DDL = f"{c.TABLE} int, partition binary, files bigint, newest bigint, unknown bigint, note string"
KEYS = [c.TABLE, "partition", "note"]
# An Iceberg manifest says in its header by which spec its partitions are to be read.
SPEC = b"partition-spec-id"

Batches = Iterable[pa.RecordBatch]
Times = Mapping[int, Mapping[int, int]]
Row = dict[str, Any]


def count_partitions(task: ReadTask, times: Times | None = None) -> Callable[[Batches], Batches]:
    """MANIFESTS in, PARTITIONS out. `times`: by table and snapshot, when it was committed."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = batch.to_pylist()
            notes = [(row[c.TABLE], row["path"]) for row in rows if row["path"].startswith(NOTE)]
            found = [PARTITIONS.empty_table(), _noted(notes)]
            for some in _chunks([row for row in rows if not row["path"].startswith(NOTE)]):
                found += _counted(some, task, times or {})
            yield from added_up(pa.concat_tables(found)).combine_chunks().to_batches()

    return run


def _chunks(rows: list[Row]) -> Iterator[list[Row]]:
    """Manifests of one format to read together: few enough to hold their bytes."""
    for name in sorted({row["format"] for row in rows}):
        chunk: list[Row] = []
        weight = 0
        for row in (row for row in rows if row["format"] == name):
            if chunk and weight + (row["length"] or 0) > BYTES_AT_ONCE:
                yield chunk
                chunk, weight = [], 0
            chunk.append(row)
            weight += row["length"] or 0
        yield chunk


def _counted(rows: list[Row], task: ReadTask, times: Times) -> Iterator[pa.Table]:
    """PARTITIONS of some manifests of one format, and the notes on those that are not whole."""
    blobs = sized(rows, task.stores.get_many([row["path"] for row in rows]))
    decoded, counts, errors = decode_files(blobs, task.readers[rows[0]["format"]].partition_columns)
    for index, row in enumerate(rows):
        if index not in errors and row["rows"] is not None and row["rows"] != counts[index]:
            errors[index] = ValueError(f"has {counts[index]} entries where its list says {row['rows']}")
    tables = np.array([row[c.TABLE] for row in rows], np.int32)
    specs: dict[int, int] = {}
    for part in decoded:
        mine = tables[part.owner]
        if "partition" in part.table.column_names:
            yield _by_bytes(part.table, mine)
            continue
        for index in {int(owner) for owner in part.owner} - specs.keys() - errors.keys():
            try:
                specs[index] = _spec(blobs[index])
            except IncompleteManifestError as error:
                errors[index] = error
        whole = np.isin(part.owner, [index for index in specs if index not in errors])
        numbers = np.array([specs[int(owner)] for owner in part.owner[whole]], np.int32)
        yield _by_values(part.table.filter(pa.array(whole)), mine[whole], numbers, times)
    yield _noted([(rows[i][c.TABLE], error_note(rows[i][c.TABLE], e, rows[i]["path"])) for i, e in errors.items()])


def _spec(blob: bytes | Exception) -> int:
    header = header_of(blob) if isinstance(blob, bytes) else {}
    try:
        return int(header[SPEC])
    except (KeyError, ValueError) as error:
        raise IncompleteManifestError("does not say by which spec its partitions are to be read") from error


def _by_bytes(entries: pa.Table, tables: NDArray[np.int32]) -> pa.Table:
    """PARTITIONS of entries that name their partition by bytes, and of which each says whether it adds or deletes."""
    signs = pc.if_else(pc.equal(entries["status"].cast(pa.int32()), ADDED), 1, -1)
    created = _millis(entries)
    rows = pa.table(
        {
            c.TABLE: pa.array(tables, pa.int32()),
            "partition": entries["partition"].cast(pa.binary()),
            "files": signs.cast(pa.int64()),
            "newest": created,
            "unknown": pc.is_null(created).cast(pa.int64()),
            "note": pa.nulls(entries.num_rows, pa.string()),
        }
    )
    return added_up(rows)


def _by_values(entries: pa.Table, tables: NDArray[np.int32], specs: NDArray[np.int32], times: Times) -> pa.Table:
    """PARTITIONS of entries that spell their partition in values; those of deleted files name what is gone already."""
    names = [name for name in entries.column_names if name[0] == "p" and name[1:].isdigit()]
    snapshots = entries["snapshot"].to_pylist() if "snapshot" in entries.column_names else [None] * entries.num_rows
    newest = [times.get(table, {}).get(number) for table, number in zip(tables.tolist(), snapshots, strict=True)]
    rows = pa.table(
        {
            c.TABLE: pa.array(tables, pa.int32()),
            "spec": pa.array(specs, pa.int32()),
            **{name: _number(entries[name]) for name in names},
            "newest": pa.array(newest, pa.int64()),
            "unknown": pa.array([moment is None for moment in newest]).cast(pa.int64()),
        }
    ).filter(pc.less(entries["status"].cast(pa.int32()), DELETED))
    keys = [c.TABLE, "spec", *names]
    sums = rows.group_by(keys).aggregate([([], "count_all"), ("newest", "max"), ("unknown", "sum")])
    values = zip(*(sums[name].to_pylist() for name in names), strict=True) if names else [()] * sums.num_rows
    partitions = [partition_key(spec, some) for spec, some in zip(sums["spec"].to_pylist(), values, strict=True)]
    return pa.table(
        {
            c.TABLE: sums[c.TABLE],
            "partition": pa.array(partitions, pa.binary()),
            "files": sums["count_all"],
            "newest": sums["newest_max"],
            "unknown": sums["unknown_sum"],
            "note": pa.nulls(sums.num_rows, pa.string()),
        }
    ).cast(PARTITIONS)


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as the numbers they are stored as."""
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column


def _millis(entries: pa.Table) -> pa.ChunkedArray:
    if "created" not in entries.column_names:
        return pa.chunked_array([pa.nulls(entries.num_rows, pa.int64())])
    column = entries["created"]
    return (column.cast(pa.timestamp("ms")) if pa.types.is_timestamp(column.type) else column).cast(pa.int64())


def _noted(notes: Iterable[tuple[int, str]]) -> pa.Table:
    rows = [{c.TABLE: table, "note": note, "files": 0, "unknown": 0} for table, note in notes]
    return pa.Table.from_pylist(rows, schema=PARTITIONS)


def added_up(rows: pa.Table) -> pa.Table:
    """PARTITIONS with each table's partition once."""
    sums = rows.group_by(KEYS).aggregate([("files", "sum"), ("newest", "max"), ("unknown", "sum")])
    return sums.rename_columns([*KEYS, "files", "newest", "unknown"]).select(PARTITIONS.names).cast(PARTITIONS)


def partitions_here(wanted: ToRead, read: ReadTask, times: Times | None = None) -> pa.Table:
    """PARTITIONS of a few tables, read by the driver."""
    lists = pa.Table.from_batches(read_lists(read)(iter(wanted.lists.to_batches())), schema=c.MANIFESTS)
    # A note has no content, and must not be lost: a list that cannot be read is not an empty one.
    opened = lists.filter(pc.fill_null(pc.not_equal(lists["content"], c.CONTENT_SIDECAR), True))
    return added_up(pa.Table.from_batches(count_partitions(read, times)(iter(opened.to_batches())), schema=PARTITIONS))


def by_table(rows: pa.Table) -> tuple[Mapping[int, list[PartitionFiles]], Mapping[int, str]]:
    """Each table's partitions, and the first note of each table that could not be read."""
    found: dict[int, list[PartitionFiles]] = {}
    notes: dict[int, str] = {}
    for row in rows.to_pylist():
        if row["note"] is not None:
            notes.setdefault(row[c.TABLE], row["note"])
        else:
            known = row["newest"]
            files = PartitionFiles(row["partition"], row["files"], None if row["unknown"] else known, known)
            found.setdefault(row[c.TABLE], []).append(files)
    return found, notes
