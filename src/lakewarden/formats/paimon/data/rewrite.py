"""One group rewritten by one task: its rows read, less the deleted ones, and written again. Rows go through Arrow alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.formats.file_bytes import Ranges, whole
from lakewarden.formats.new_files import check_sum
from lakewarden.formats.paimon.data.order import Input, Order, Rewritten
from lakewarden.formats.paimon.data.projection import projected
from lakewarden.formats.paimon.data.types import (
    ROW_ID,
    SEQUENCE_NUMBER,
    Column,
    arrow_type,
    columns_of,
    tracking_columns,
)
from lakewarden.formats.paimon.data.vectors import Positions, positions
from lakewarden.formats.paimon.data.write import Sink, Writer
from lakewarden.formats.parquet_rows import aligned_batches
from lakewarden.model.errors import IncompleteManifestError, LakewardenError, UnsupportedTableError

BATCH_ROWS = 65_536
# A file up to this size is fetched whole: a request for each of its columns would cost more than its bytes.
WHOLE = 64 << 20
# Whatever a damaged file makes its decoder raise; a page that cannot be unpacked is an OSError, a text that is none a
# ValueError.
_DAMAGE = (pa.ArrowException, OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class DataFiles(Sink, Protocol):
    """What rewriting asks of the stores."""

    def get(self, uri: str) -> bytes: ...

    def get_range(self, uri: str, start: int, length: int) -> bytes: ...


def rewrite(order: Order, files: DataFiles, scratch: Path) -> Rewritten:
    """The group in new files. What keeps it from being rewritten exactly is in the answer; its inputs stay as they are."""
    try:
        return _Group(order, files, scratch).rewrite()
    except LakewardenError as error:
        return Rewritten(order.group, code=error.code, message=error.message)
    except _DAMAGE as error:
        reason = f"a file of the group cannot be carried over ({type(error).__name__}: {error}); nothing was rewritten"
        broken = IncompleteManifestError(reason)
        return Rewritten(order.group, code=broken.code, message=broken.message)


class _Group:
    def __init__(self, order: Order, files: DataFiles, scratch: Path) -> None:
        self._order = order
        self._files = files
        self._tracking = tracking_columns() if order.tracked else ()
        self._now = columns_of(order.schemas[order.schema])
        first = min(one.min_sequence for one in order.inputs)
        self._writer = Writer(
            files, order.directory, self._now, self._tracking, order.options, order.target, first, scratch
        )
        self._vector_files: dict[str, bytes] = {}
        self._deleted = 0

    def rewrite(self) -> Rewritten:
        for one in self._order.inputs:
            for batch in self._rows(one):
                self._writer.add(batch)
        self._writer.close()
        rows = sum(one.rows for one in self._order.inputs)
        written = sum(file.rows for file in self._writer.files)
        check_sum(rows, self._deleted, written)
        return Rewritten(self._order.group, rows, self._deleted, tuple(self._writer.files))

    def _rows(self, one: Input) -> Iterator[pa.RecordBatch]:
        """The rows of one input that are not deleted, as they are to be written."""
        gone = self._positions(one)
        was = columns_of(self._order.schemas[one.schema])
        at = 0
        for batch in self._batches(one, was):
            whole = projected(batch, was, self._now)
            if self._tracking:
                whole = _tracked(whole, batch, one, at, self._tracking)
            first, last = np.searchsorted(gone, [at, at + batch.num_rows])
            at += batch.num_rows
            self._deleted += int(last - first)
            yield whole if first == last else _less(whole, gone[first:last] - (at - batch.num_rows))
        if at != one.rows:
            raise IncompleteManifestError(f"{one.path} has {at} rows and should have {one.rows}; nothing was rewritten")
        if len(gone) and int(gone[-1]) >= at:
            raise IncompleteManifestError(
                f"the vector of {one.path} deletes rows beyond its last; nothing was rewritten"
            )

    def _positions(self, one: Input) -> Positions:
        if one.vector is None:
            return np.empty(0, np.int64)
        if one.vector.path not in self._vector_files:
            self._vector_files[one.vector.path] = self._files.get(one.vector.path)
        return positions(self._vector_files[one.vector.path], one.vector, one.rows)

    def _batches(self, one: Input, was: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        small = one.size <= WHOLE
        source: Any = (
            pa.BufferReader(whole(self._files, one.path, one.size))
            if small
            else Ranges(self._files, one.path, one.size)
        )
        file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
        if any(file.schema.column(place).physical_type == "INT96" for place in range(len(file.schema))):
            raise UnsupportedTableError(f"{one.path} stores times in an outdated form; nothing was rewritten")
        present = set(file.schema_arrow.names)
        wanted = [name for name in (*(c.name for c in was), *(c.name for c in self._tracking)) if name in present]
        yield from aligned_batches(file, wanted, BATCH_ROWS)


def _less(rows: pa.RecordBatch, gone: Positions) -> pa.RecordBatch:
    kept = np.ones(rows.num_rows, bool)
    kept[gone] = False
    return rows.filter(pa.array(kept))


def _tracked(
    rows: pa.RecordBatch, stored: pa.RecordBatch, one: Input, at: int, tracking: Sequence[Column]
) -> pa.RecordBatch:
    """With each row's own id and the commit that last changed it: as its file stores them, else by the row's place."""
    own: dict[str, Any] = {SEQUENCE_NUMBER: pa.scalar(one.max_sequence, pa.int64())}
    if one.first_row_id is not None:
        own[ROW_ID] = pa.array(np.arange(at, at + rows.num_rows, dtype=np.int64) + one.first_row_id)
    columns, fields = list(rows.columns), list(rows.schema)
    for column in tracking:
        place = stored.schema.get_field_index(column.name)
        found = pa.nulls(rows.num_rows, pa.int64()) if place < 0 else stored.column(place)
        found = pc.coalesce(found, own[column.name]) if column.name in own else found
        if found.null_count:
            raise UnsupportedTableError(f"rows of {one.path} have no ids yet; nothing was rewritten")
        columns.append(found)
        fields.append(pa.field(column.name, arrow_type(column.type)))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
