"""One group rewritten by one task: its rows read, less the deleted ones, and written again. Rows go through Arrow alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
from lakewarden.formats.iceberg.data.deletes import EqualityKeys, Positions, file_positions, vector_positions
from lakewarden.formats.iceberg.data.foreign_footer import NotCopiedError
from lakewarden.formats.iceberg.data.inputs import InputRows
from lakewarden.formats.iceberg.data.order import EQUALITY, POSITION, VECTOR, DeleteFile, Input, Order, Rewritten
from lakewarden.formats.iceberg.data.projection import Absent, projected
from lakewarden.formats.iceberg.data.sort import Sorter, sorted_columns
from lakewarden.formats.iceberg.data.source import DataFiles, some_at_a_time
from lakewarden.formats.iceberg.data.write import Style, Writer
from lakewarden.formats.iceberg.manifests.files import ROW_IDS
from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.formats.new_files import check_sum
from lakewarden.model.errors import IncompleteManifestError, LakewardenError, UnsupportedTableError
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
        self._inputs = InputRows([*self._own, *self._keyed, *self._lineage], absent, order.names)
        self._equality: dict[tuple[str, ...], list[EqualityKeys]] = {}
        self._deleted = 0

    def rewrite(self) -> Rewritten:
        for some in some_at_a_time(self._files, self._order.inputs):
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
            for one in inputs:
                yield from self._rows(one, rows.slice(at, one.rows).to_batches())
                at += one.rows

    def _rows(self, one: Input, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one input that are not deleted, as they are to be written."""
        gone = self._positions(one)
        keys = self._keys(one)
        at = 0
        for found in batches:
            whole = _with_lineage(found, one, at) if self._lineage else found
            kept = self._kept(whole, at, gone, keys)
            at += whole.num_rows
            left = whole if kept is None else whole.filter(kept)
            self._deleted += whole.num_rows - left.num_rows
            yield left.select(self._written) if self._keyed else left
        if at != one.rows:
            raise IncompleteManifestError(f"{one.path} has {at} rows and should have {one.rows}; nothing was rewritten")

    def _kept(self, rows: pa.RecordBatch, at: int, gone: Positions, keys: Sequence[EqualityKeys]) -> pa.Array | None:
        """Which rows stay; None if all do."""
        if not len(gone) and not keys:
            return None
        kept = np.ones(rows.num_rows, bool)
        first, last = np.searchsorted(gone, [at, at + rows.num_rows])
        kept[gone[first:last] - at] = False
        for found in keys:
            columns = [_column(rows, field) for field in found.fields]
            kept &= ~found.hits(columns).to_numpy(zero_copy_only=False)
        return None if kept.all() else pa.array(kept)

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

    def _keys(self, one: Input) -> list[EqualityKeys]:
        """The equality deletes of one input, those that go by the same columns together."""
        mine = [deletion for deletion in one.deletes if deletion.kind == EQUALITY]
        if not mine:
            return []
        names = tuple(sorted(deletion.path for deletion in mine))
        if names not in self._equality:
            by_columns: dict[tuple[int, ...], list[DeleteFile]] = {}
            for deletion in mine:
                by_columns.setdefault(tuple(sorted(deletion.equality_ids)), []).append(deletion)
            self._equality[names] = [self._read_keys(ids, some) for ids, some in by_columns.items()]
        return self._equality[names]

    def _read_keys(self, ids: tuple[int, ...], deletes: Sequence[DeleteFile]) -> EqualityKeys:
        known = {id_of(field): field for field in _within([*self._own, *self._keyed])}
        if not ids or not set(ids) <= set(known):
            raise UnsupportedTableError(
                f"{deletes[0].path} deletes by a column that no schema has as one of its own; nothing was rewritten"
            )
        fields = [known[number].with_nullable(True) for number in ids]
        rows = []
        for deletion in deletes:
            data = pa.BufferReader(whole(self._files, canonical(deletion.path), deletion.size))
            table = pq.ParquetFile(data, pre_buffer=False, page_checksum_verification=True).read(use_threads=False)
            if table.num_rows != deletion.rows:
                raise IncompleteManifestError(
                    f"{deletion.path} has {table.num_rows} deletes and should have {deletion.rows}; nothing was rewritten"
                )
            rows += [projected(_keys_of(batch, ids, deletion), fields, Absent()) for batch in table.to_batches()]
        return EqualityKeys.of(fields, pa.Table.from_batches(rows, schema=pa.schema(fields)))


def _keys_of(batch: pa.RecordBatch, ids: Sequence[int], deletion: DeleteFile) -> pa.RecordBatch:
    """The columns that a file deletes by, those within structs too: a missing struct has no member."""
    found = {id_of(field): (field, array) for field, array in _columns(batch.schema, batch.columns)}
    if not set(ids) <= set(found):
        raise UnsupportedTableError(
            f"{deletion.path} lacks a column that it deletes by, or has it within a list; nothing was rewritten"
        )
    fields, arrays = zip(*(found[number] for number in ids), strict=True)
    return pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema([field.with_nullable(True) for field in fields]))


def _column(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """A column by its id, also within structs."""
    for found, array in _columns(rows.schema, rows.columns):
        if id_of(found) == id_of(field):
            return array
    raise UnsupportedTableError(f"an equality delete goes by {field.name}, which no schema has; nothing was rewritten")


def _columns(fields: Any, arrays: Sequence[pa.Array]) -> Iterator[tuple[pa.Field, pa.Array]]:
    for found, array in zip(fields, arrays, strict=True):
        yield found, array
        if pa.types.is_struct(found.type):
            yield from _columns(found.type, array.flatten())


def _within(fields: Any) -> Iterator[pa.Field]:
    for found in fields:
        yield found
        if pa.types.is_struct(found.type):
            yield from _within(found.type)


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
