"""What tasks tell of the files in manifests, a row a file: which partition each lies in, how large it is, what is deleted.

These functions run on executors. A manifest that cannot be proven whole becomes a note for the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.compaction import RewriteWorker
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.avro.decode import decode_files
from lakewarden.pipeline.read.manifests import sized
from lakewarden.pipeline.read.notes import NOTE, error_note
from lakewarden.pipeline.read.partitions import chunks
from lakewarden.storage.stores import Stores

# One row per live file of some manifests; `content`: 0 data, 1 deletes by position, 2 deletes by equality. `about` is the
# one data file that deletes are about, where they say so. `sequence` is the number of the commit that wrote its rows (up to
# `last_sequence` where each row has a number), and `snapshot` the snapshot that added it. Deletes that are `everywhere` reach every partition. In place of a file, a task's
# note. What a format does not tell is null.
DATA_FILES = pa.schema(
    [
        (c.TABLE, pa.int32()),
        ("partition", pa.binary()),
        ("content", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("about", pa.string()),
        ("sequence", pa.int64()),
        ("last_sequence", pa.int64()),
        ("snapshot", pa.int64()),
        ("everywhere", pa.bool_()),
        ("note", pa.string()),
    ]
)

Batches = Iterable[pa.RecordBatch]
Row = dict[str, Any]


def read_data_files(stores: Stores, workers: Mapping[str, RewriteWorker]) -> Callable[[Batches], Batches]:
    """INHERITED in, DATA_FILES out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            notes = [(row[c.TABLE], row["path"]) for row in rows if row["path"].startswith(NOTE)]
            yield from _noted(notes).to_batches()
            for some in chunks([row for row in rows if not row["path"].startswith(NOTE)]):
                for table in _files(some, stores, workers):
                    yield from table.combine_chunks().to_batches()

    return run


def _files(rows: list[Row], stores: Stores, workers: Mapping[str, RewriteWorker]) -> Iterator[pa.Table]:
    """The live files of some manifests of one format, and the notes on those that are not whole."""
    blobs = sized(rows, stores.get_many([row["path"] for row in rows]))
    parts, counts, errors, _ = workers[rows[0]["format"]].data_files(blobs, decode_files)
    for index, row in enumerate(rows):
        if index not in errors and row["rows"] is not None and row["rows"] != counts[index]:
            errors[index] = ValueError(f"has {counts[index]} entries where its list says {row['rows']}")
    carried = pa.Table.from_pylist(rows, schema=c.INHERITED)
    for part in parts:
        whole = pa.array(~np.isin(part.owner, list(errors)))
        yield _spelled_out(part.table, carried.take(pa.array(part.owner))).filter(whole)
    yield _noted([(rows[i][c.TABLE], error_note(rows[i][c.TABLE], e, rows[i]["path"])) for i, e in errors.items()])


def _spelled_out(files: pa.Table, manifests: pa.Table) -> pa.Table:
    """DATA_FILES of what a format told, each beside its manifest."""
    blank = pa.nulls(files.num_rows)
    told = {
        name: files[name].cast(DATA_FILES.field(name).type) if name in files.column_names else blank
        for name in DATA_FILES.names
    }
    for name in ("sequence", "snapshot"):
        told[name] = pc.coalesce(told[name].cast(pa.int64()), manifests[name])
    return pa.table({**told, c.TABLE: manifests[c.TABLE]}).cast(DATA_FILES)


def _noted(notes: Iterable[tuple[int, str]]) -> pa.Table:
    return pa.Table.from_pylist([{c.TABLE: table, "note": note} for table, note in notes], schema=DATA_FILES)
