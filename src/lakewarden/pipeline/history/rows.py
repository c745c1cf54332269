"""The archive's rows as Arrow: one row a snapshot, the same for every format; and a file's bytes, proven whole."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.model import lineage as keys
from lakewarden.model.errors import ArchiveDamagedError, LakewardenError
from lakewarden.model.history import SnapshotRow
from lakewarden.model.table import TableState
from lakewarden.pipeline.settled import Batches
from lakewarden.storage.stores import Stores

INPUT = pa.struct([("table", pa.string()), ("snapshot_id", pa.int64())])
# One row a snapshot. Ids are numbers of 64 bits; `summary` has everything that the snapshot says of itself.
HISTORY = pa.schema(
    [
        ("uuid", pa.string()),
        ("identifier", pa.string()),
        ("format", pa.string()),
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("sequence", pa.int64()),
        ("committed_ms", pa.int64()),
        ("operation", pa.string()),
        ("writer_id", pa.string()),
        ("trigger_type", pa.string()),
        ("inputs", pa.list_(INPUT)),
        ("added_rows", pa.int64()),
        ("added_bytes", pa.int64()),
        ("refs", pa.list_(pa.string())),
        ("schema_id", pa.int64()),
        ("manifest_list", pa.string()),
        ("metadata_location", pa.string()),
        ("summary", pa.map_(pa.string(), pa.string())),
        ("document", pa.string()),
        ("digest", pa.string()),
    ]
)
# One row a file of the archive that is to be read.
FILES = pa.schema([("uri", pa.string()), ("sha256", pa.string())])


def to_arrow(state: TableState, rows: Sequence[SnapshotRow]) -> pa.Table:
    """HISTORY of some snapshots of a table."""
    many = len(rows)
    columns = {
        "uuid": [state.uuid] * many,
        "identifier": [state.identifier] * many,
        "format": [state.format] * many,
        "metadata_location": [state.metadata_location] * many,
        "writer_id": [row.summary.get(keys.WRITER) for row in rows],
        "trigger_type": [row.summary.get(keys.TRIGGER) for row in rows],
        "inputs": [[one._asdict() for one in row.inputs] for row in rows],
        "summary": [list(row.summary.items()) for row in rows],
    }
    own = {name: [getattr(row, name) for row in rows] for name in HISTORY.names if name not in columns}
    return pa.table({**columns, **own}, schema=HISTORY)


def packed(table: pa.Table) -> bytes:
    """The bytes of a file: the same rows give the same bytes."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=100_000)
    return sink.getvalue()


def read_file(stores: Stores, uri: str, sha256: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Columns of a file of the archive. Raises ArchiveDamagedError unless its bytes are those that were written."""
    return pq.read_table(io.BytesIO(checked(stores, uri, sha256)), columns=None if columns is None else list(columns))


def checked(stores: Stores, uri: str, sha256: str) -> bytes:
    """The bytes of a file of the archive. Raises ArchiveDamagedError, or StoreUnavailableError."""
    try:
        data = stores.get(uri)
    except FileNotFoundError:
        raise ArchiveDamagedError(f"the archive file {uri} is gone") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ArchiveDamagedError(f"the archive file {uri} is damaged: its bytes are not those that were written")
    return data


def reading(stores: Stores, columns: Sequence[str]) -> Callable[[Batches], Batches]:
    """FILES in, columns of HISTORY and `note` out. A file that is not whole is one row, whose note says so."""
    schema = noted(columns)

    def run(batches: Batches) -> Batches:
        for row in (row for batch in batches for row in batch.to_pylist()):
            try:
                found = read_file(stores, row["uri"], row["sha256"], columns)
            except LakewardenError as error:
                yield pa.RecordBatch.from_pylist([{"note": error.message}], schema=schema)
                continue
            nothing = pa.nulls(found.num_rows, pa.string())
            yield from found.append_column("note", nothing).cast(schema).to_batches()

    return run


def noted(columns: Sequence[str]) -> pa.Schema:
    """Columns of HISTORY, and what is wrong with a file where something is."""
    return pa.schema([*(HISTORY.field(name) for name in columns), pa.field("note", pa.string())])


def month_of(committed_ms: int) -> str:
    """The month of an instant, by UTC."""
    at = datetime.fromtimestamp(committed_ms / 1000, UTC)
    return f"{at.year:04}-{at.month:02}"
