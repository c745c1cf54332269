"""Who was made from whom, as numbers: each snapshot of the archive is a node, each input that it names an edge.

A million snapshots are some tens of megabytes so, and fit into one task, where the closure is computed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.pipeline.history.rows import read_file
from lakewarden.pipeline.read.hashing import key_hashes, repeated_hashes
from lakewarden.pipeline.settled import Batches
from lakewarden.storage.stores import Stores

READ = ("uuid", "identifier", "snapshot_id", "committed_ms", "inputs", "digest")
# One file of the archive that is to be read, under a number.
NUMBERED = pa.schema([("number", pa.int32()), ("uri", pa.string()), ("sha256", pa.string())])
# One row for each input of a snapshot; a snapshot without any is one row without an input. `file` and `place` say where its
# row is. `table` and `name` are hashes of its table's uuid and identifier, `input_table` of the one that the input names.
EDGES = pa.schema(
    [
        ("file", pa.int32()),
        ("place", pa.int32()),
        ("table", pa.int64()),
        ("name", pa.int64()),
        ("id", pa.int64()),
        ("at", pa.int64()),
        ("digest", pa.int64()),
        ("input_table", pa.int64()),
        ("input_id", pa.int64()),
        ("note", pa.string()),
    ]
)


def edges_of(rows: pa.Table, file: int) -> pa.Table:
    """READ in, EDGES out."""
    many = rows.num_rows
    inputs = rows["inputs"].combine_chunks() if many else pa.array([], rows.schema.field("inputs").type)
    counts = pc.fill_null(pc.list_value_length(inputs), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    owners = np.repeat(np.arange(many), counts)
    bare = np.flatnonzero(counts == 0)
    flat = pc.list_flatten(inputs)
    names, ids = pc.struct_field(flat, "table"), pc.struct_field(flat, "snapshot_id")
    order = np.concatenate([owners, bare])
    nothing = pa.nulls(len(bare), pa.int64())
    columns = {
        "file": pa.array(np.full(len(order), file, np.int32)),
        "place": pa.array(order.astype(np.int32)),
        "table": _hashed(rows["uuid"]).take(pa.array(order)),
        "name": _hashed(rows["identifier"]).take(pa.array(order)),
        "id": rows["snapshot_id"].combine_chunks().take(pa.array(order)),
        "at": rows["committed_ms"].combine_chunks().take(pa.array(order)),
        "digest": pa.array(key_hashes(rows["digest"].combine_chunks()).astype(np.int64)).take(pa.array(order)),
        "input_table": pa.concat_arrays([_named(names), nothing]),
        "input_id": pa.concat_arrays([ids.cast(pa.int64()), nothing]),
        "note": pa.nulls(len(order), pa.string()),
    }
    return pa.table(columns, schema=EDGES)


def reading_edges(stores: Stores) -> Callable[[Batches], Batches]:
    """NUMBERED in, EDGES out. A file that is not whole is one row, whose note says so."""
    from lakewarden.model.errors import LakewardenError

    def run(batches: Batches) -> Batches:
        for row in (row for batch in batches for row in batch.to_pylist()):
            try:
                found = read_file(stores, row["uri"], row["sha256"], READ)
            except LakewardenError as error:
                yield pa.RecordBatch.from_pylist([{"file": row["number"], "note": error.message}], schema=EDGES)
                continue
            yield from edges_of(found, row["number"]).to_batches()

    return run


def hash_of(text: str) -> int:
    """The hash that EDGES have of a table's uuid or identifier."""
    return int(key_hashes(pa.array([text])).astype(np.int64)[0])


def _hashed(column: pa.ChunkedArray) -> pa.Array:
    return pa.array(repeated_hashes(column).astype(np.int64))


def _named(names: pa.Array) -> pa.Array:
    """The hashes of the tables that inputs name; null where an input names none."""
    given = pc.if_else(pc.equal(names, ""), pa.scalar(None, pa.string()), names)
    hashes = pa.array(repeated_hashes(pa.chunked_array([pc.fill_null(given, "")])).astype(np.int64))
    return pc.if_else(pc.is_valid(given), hashes, pa.scalar(None, pa.int64()))
