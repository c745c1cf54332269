"""One group rewritten by one task: its rows read, less the deleted ones, and written again. Rows go through Arrow alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.formats.file_bytes import whole
from lakewarden.formats.iceberg.data.columns import (
    LAST_UPDATED,
    ROW_ID,
    annotated,
    arrow_field,
    arrow_schema,
    id_of,
    initial_defaults,
    lineage_columns,
    partition_constants,
)
from lakewarden.formats.iceberg.data.copy import copied
from lakewarden.formats.iceberg.data.deletes import Positions, file_positions, vector_positions
from lakewarden.formats.iceberg.data.equality import EqualityDeletes
from lakewarden.formats.iceberg.data.foreign_footer import NotCopiedError
from lakewarden.formats.iceberg.data.form import leaves
from lakewarden.formats.iceberg.data.inputs import InputRows
from lakewarden.formats.iceberg.data.order import POSITION, VECTOR, DeleteFile, Input, Order, Rewritten
from lakewarden.formats.iceberg.data.projection import Absent
from lakewarden.formats.iceberg.data.sort import Sorter, sorted_columns
from lakewarden.formats.iceberg.data.source import DataFiles, some_at_a_time
from lakewarden.formats.iceberg.data.write import Style, Writer
from lakewarden.formats.iceberg.manifests.files import ROW_IDS
from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.formats.new_files import check_sum
from lakewarden.model.errors import IncompleteManifestError, LakewardenError
from lakewarden.model.uri import canonical

_NO_POSITIONS: Positions = np.empty(0, np.int64)


def rewrite(order: Order, files: DataFiles, scratch: Path) -> Rewritten:
    """The group in new files. What keeps it from being rewritten exactly is in the answer; its inputs stay as they are."""
    try:
        try:
            return copied(order, files)
        except NotCopiedError as uncopied:
            return replace(_Group(order, files, scratch).rewrite(), why=str(uncopied))
    except LakewardenError as error:
        return Rewritten(order.group, code=error.code, message=error.message, hint=error.hint)
    except (pa.ArrowException, OSError, *GARBLED) as error:
        # Whatever a damaged file makes its decoder raise; a page that cannot be unpacked is an OSError, a text that is none
        # a ValueError.
        reason = f"a file of the group cannot be carried over ({type(error).__name__}: {error}); nothing was rewritten"
        broken = IncompleteManifestError(reason)
        return Rewritten(order.group, code=broken.code, message=broken.message, hint=broken.hint)


class _Group:
    def __init__(self, order: Order, files: DataFiles, scratch: Path) -> None:
        self._order = order
        self._files = files
        self._own = list(arrow_schema(order.columns))
        self._keyed = [arrow_field(field) for field in order.dropped]
        self._lineage = lineage_columns() if order.version >= ROW_IDS else []
        self._schema = pa.schema([*self._own, *self._lineage])
        # By place: a column that was dropped may have the name of one that came later.
        own, keyed = len(self._own), len(self._keyed)
        self._written = [*range(own), *range(own + keyed, own + keyed + len(self._lineage))]
        self._sorter = Sorter(order.sort, self._schema, scratch) if order.sort is not None else None
        sorted_as = (int(order.sort["order-id"]), sorted_columns(order.sort, self._schema)) if order.sort else (0, ())
        style = Style(order.properties, annotated(order.columns), *sorted_as)
        self._writer = Writer(files, order.prefix, self._schema, style, order.target, scratch, order.spread)
        defaults = initial_defaults(order.columns) | initial_defaults({"fields": order.dropped})
        known = {"fields": [*order.columns["fields"], *order.dropped]}
        absent = Absent(defaults, partition_constants(known, order.constants))
        read = [*self._own, *self._keyed, *self._lineage]
        self._columns = sum(1 for _ in leaves(read))
        self._inputs = InputRows(read, absent, order.names)
        self._equality = EqualityDeletes(files, [*self._own, *self._keyed], order.inputs)
        self._deleted = 0

    def rewrite(self) -> Rewritten:
        for some in some_at_a_time(self._files, self._order.inputs, self._columns):
            for inputs, batches in self._inputs.of_some(some):
                for batch in self._rows_of_some(inputs, batches):
                    (self._sorter or self._writer).add(batch)
        for batch in self._sorter.rows() if self._sorter is not None else ():
            self._writer.add(batch)
        self._writer.close()
        rows = sum(one.rows for one in self._order.inputs)
        written = sum(file.rows for file in self._writer.files)
        check_sum(rows, self._deleted, written)
        return Rewritten(self._order.group, rows, self._deleted, tuple(self._writer.files))

    def _rows_of_some(self, inputs: Sequence[Input], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of inputs that were read one after the other."""
        if len(inputs) == 1:
            yield from self._rows(inputs[0], batches)
        elif not self._lineage and not any(one.deletes for one in inputs):
            yield from (batch.select(self._written) if self._keyed else batch for batch in batches)
        else:
            rows, at = pa.Table.from_batches(batches), 0
            # Looked for at once: to have so many keys ready costs more than to look for a few rows among them.
            by_value = self._equality.hits(rows.to_batches(), inputs)
            for one in inputs:
                end = at + one.rows
                mine = None if by_value is None else by_value[at:end]
                yield from self._rows(one, rows.slice(at, one.rows).to_batches(), mine)
                at = end

    def _rows(
        self, one: Input, batches: Iterable[pa.RecordBatch], by_value: NDArray[np.bool_] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one input that are not deleted, as they are to be written. `by_value` are those that values delete,
        where that is known."""
        gone = self._positions(one)
        at = 0
        for found in batches:
            whole = _with_lineage(found, one, at) if self._lineage else found
            hit = self._equality.hits([found], [one]) if by_value is None else by_value[at : at + found.num_rows]
            kept = _kept(found.num_rows, at, gone, hit)
            at += whole.num_rows
            left = whole if kept is None else whole.filter(kept)
            self._deleted += whole.num_rows - left.num_rows
            yield left.select(self._written) if self._keyed else left
        if at != one.rows:
            raise IncompleteManifestError(f"{one.path} has {at} rows and should have {one.rows}; nothing was rewritten")

    def _positions(self, one: Input) -> Positions:
        if not one.deletes:
            return _NO_POSITIONS
        found: list[Positions] = [_NO_POSITIONS]
        vectors = [deletion for deletion in one.deletes if deletion.kind == VECTOR]
        # A vector holds everything that position deletes said before it.
        for deletion in vectors or [deletion for deletion in one.deletes if deletion.kind == POSITION]:
            found.append(self._read_positions(deletion, one))
        return np.unique(np.concatenate(found))

    def _read_positions(self, deletion: DeleteFile, one: Input) -> Positions:
        uri = canonical(deletion.path)
        if deletion.kind == VECTOR:
            assert deletion.offset is not None
            assert deletion.length is not None
            blob = self._files.get_range(uri, deletion.offset, deletion.length)
            return vector_positions(blob, deletion.rows, deletion.name)
        if deletion.path not in self._position_files:
            paths = [some.path for some in self._order.inputs]
            self._position_files[deletion.path] = file_positions(
                pa.py_buffer(whole(self._files, canonical(deletion.path), deletion.size)),
                paths,
                deletion.rows,
                deletion.path,
            )
        return self._position_files[deletion.path][one.path]

    @cached_property
    def _position_files(self) -> dict[str, Mapping[str, Positions]]:
        return {}


def _kept(rows: int, at: int, gone: Positions, hit: NDArray[np.bool_] | None) -> pa.Array | None:
    """Which of so many rows, the first of them at this place, stay; None if all do."""
    if not len(gone) and hit is None:
        return None
    kept = np.ones(rows, bool) if hit is None else ~hit
    first, last = np.searchsorted(gone, [at, at + rows])
    kept[gone[first:last] - at] = False
    return None if kept.all() else pa.array(kept)


def _with_lineage(rows: pa.RecordBatch, one: Input, at: int) -> pa.RecordBatch:
    """With each row's own id and the commit that last changed it, where the file does not store them itself."""
    numbers = [id_of(field) for field in rows.schema]
    places = numbers.index(ROW_ID), numbers.index(LAST_UPDATED)
    columns = list(rows.columns)
    if one.first_row_id is not None:
        own = pa.array(np.arange(at, at + rows.num_rows, dtype=np.int64) + one.first_row_id)
        columns[places[0]] = pc.coalesce(columns[places[0]], own)
        columns[places[1]] = pc.coalesce(columns[places[1]], pa.scalar(one.sequence, pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
