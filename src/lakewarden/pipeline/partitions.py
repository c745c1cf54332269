"""What each partition of each table holds: added minus deleted files, and the newest of them. No file name travels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.partitions import PartitionFiles
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.avro.decode import decode_files
from lakewarden.pipeline.reading import ADDED, NOTE, ReadTask, error_note, read_lists, sized
from lakewarden.pipeline.wanted import Wanted

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

Batches = Iterable[pa.RecordBatch]


def count_partitions(task: ReadTask) -> Callable[[Batches], Batches]:
    """MANIFESTS in, PARTITIONS out."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = batch.to_pylist()
            notes = [(row[c.TABLE], row["path"]) for row in rows if row["path"].startswith(NOTE)]
            rows = [row for row in rows if not row["path"].startswith(NOTE)]
            found = [PARTITIONS.empty_table()]
            if rows:
                reader = task.readers[rows[0]["format"]]
                blobs = sized(rows, task.stores.get_many([row["path"] for row in rows]))
                decoded, counts, errors = decode_files(blobs, reader.partition_columns)
                for index, row in enumerate(rows):
                    if index not in errors and row["rows"] is not None and row["rows"] != counts[index]:
                        errors[index] = ValueError(f"has {counts[index]} entries where its list says {row['rows']}")
                notes += [
                    (rows[i][c.TABLE], error_note(rows[i][c.TABLE], e, rows[i]["path"])) for i, e in errors.items()
                ]
                tables = np.array([row[c.TABLE] for row in rows], np.int32)
                found += [_summed(part.table, tables[part.owner]) for part in decoded]
            noted = [{c.TABLE: table, "note": note, "files": 0, "unknown": 0} for table, note in notes]
            found.append(pa.Table.from_pylist(noted, schema=PARTITIONS))
            yield from pa.concat_tables(found).combine_chunks().to_batches()

    return run


def _summed(entries: pa.Table, tables: np.ndarray[tuple[int], np.dtype[np.int32]]) -> pa.Table:
    """PARTITIONS of some entries."""
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


def _millis(entries: pa.Table) -> pa.ChunkedArray:
    if "created" not in entries.column_names:
        return pa.chunked_array([pa.nulls(entries.num_rows, pa.int64())])
    column = entries["created"]
    return (column.cast(pa.timestamp("ms")) if pa.types.is_timestamp(column.type) else column).cast(pa.int64())


def added_up(rows: pa.Table) -> pa.Table:
    """PARTITIONS with each table's partition once."""
    sums = rows.group_by(KEYS).aggregate([("files", "sum"), ("newest", "max"), ("unknown", "sum")])
    return sums.rename_columns([*KEYS, "files", "newest", "unknown"]).select(PARTITIONS.names).cast(PARTITIONS)


def partitions_here(wanted: Wanted, read: ReadTask) -> pa.Table:
    """PARTITIONS of a few tables, read by the driver."""
    lists = pa.Table.from_batches(read_lists(read)(iter(wanted.lists.to_batches())), schema=c.MANIFESTS)
    # A note has no content, and must not be lost: a list that cannot be read is not an empty one.
    opened = lists.filter(pc.fill_null(pc.not_equal(lists["content"], c.CONTENT_SIDECAR), True))
    return added_up(pa.Table.from_batches(count_partitions(read)(iter(opened.to_batches())), schema=PARTITIONS))


def by_table(rows: pa.Table) -> tuple[Mapping[int, list[PartitionFiles]], Mapping[int, str]]:
    """Each table's partitions, and the first note of each table that could not be read."""
    found: dict[int, list[PartitionFiles]] = {}
    notes: dict[int, str] = {}
    for row in rows.to_pylist():
        if row["note"] is not None:
            notes.setdefault(row[c.TABLE], row["note"])
        else:
            newest = None if row["unknown"] else row["newest"]
            found.setdefault(row[c.TABLE], []).append(PartitionFiles(row["partition"], row["files"], newest))
    return found, notes
