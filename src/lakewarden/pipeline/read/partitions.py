"""What each partition of each table holds: added minus deleted files, rows and bytes, and the newest. No file name travels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.partitions import PartitionFiles
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.avro.decode import decode_files
from lakewarden.pipeline.read.manifests import BYTES_AT_ONCE, ReadTask, read_lists, sized
from lakewarden.pipeline.read.notes import NOTE, error_note
from lakewarden.pipeline.read.to_read import ToRead

HELD = ("files", "rows", "deletes", "bytes")
SUMMED = (*HELD, "unknown")
# One row per table and partition of some manifests; in place of a partition, a task's note.
PARTITIONS = pa.schema(
    [
        (c.TABLE, pa.int32()),
        ("partition", pa.binary()),
        ("note", pa.string()),
        ("newest", pa.int64()),
        *((name, pa.int64()) for name in SUMMED),
    ]
)
KEYS = [c.TABLE, "partition", "note"]

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
            for some in chunks([row for row in rows if not row["path"].startswith(NOTE)]):
                found += _counted(some, task, times or {})
            yield from added_up(pa.concat_tables(found)).combine_chunks().to_batches()

    return run


def chunks(rows: list[Row]) -> Iterator[list[Row]]:
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
    parts, counts, errors, _ = task.readers[rows[0]["format"]].partitions(blobs, decode_files)
    for index, row in enumerate(rows):
        if index not in errors and row["rows"] is not None and row["rows"] != counts[index]:
            errors[index] = ValueError(f"has {counts[index]} entries where its list says {row['rows']}")
    tables = np.array([row[c.TABLE] for row in rows], np.int32)
    for part in parts:
        yield _summed(part.table, tables[part.owner], times)
    yield _noted([(rows[i][c.TABLE], error_note(rows[i][c.TABLE], e, rows[i]["path"])) for i, e in errors.items()])


def _summed(found: pa.Table, tables: NDArray[np.int32], times: Times) -> pa.Table:
    """PARTITIONS of what manifests add to partitions, by the tables that the manifests belong to."""
    newest = _moments(found, tables, times)
    rows = pa.table(
        {
            c.TABLE: pa.array(tables, pa.int32()),
            "partition": found["partition"],
            "note": pa.nulls(found.num_rows, pa.string()),
            "newest": newest,
            **{name: found[name].cast(pa.int64()) for name in HELD},
            "unknown": pc.is_null(newest).cast(pa.int64()),
        }
    )
    return added_up(rows)


def _moments(found: pa.Table, tables: NDArray[np.int32], times: Times) -> Any:
    """When entries were added, in milliseconds: as they say themselves, or when their snapshot was committed."""
    if "created" in found.column_names:
        return found["created"].cast(pa.int64())
    snapshots = found["snapshot"].to_pylist()
    known = [times.get(table, {}).get(number) for table, number in zip(tables.tolist(), snapshots, strict=True)]
    return pa.array(known, pa.int64())


def _noted(notes: Iterable[tuple[int, str]]) -> pa.Table:
    rows = [{c.TABLE: table, "note": note, **dict.fromkeys(SUMMED, 0)} for table, note in notes]
    return pa.Table.from_pylist(rows, schema=PARTITIONS)


def added_up(rows: pa.Table) -> pa.Table:
    """PARTITIONS with each table's partition once."""
    sums = rows.group_by(KEYS).aggregate([("newest", "max"), *((name, "sum") for name in SUMMED)])
    return sums.rename_columns(PARTITIONS.names).cast(PARTITIONS)


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
            held = {name: row[name] for name in HELD}
            files = PartitionFiles(
                row["partition"], newest_ms=None if row["unknown"] else known, known_ms=known, **held
            )
            found.setdefault(row[c.TABLE], []).append(files)
    return found, notes
