"""The data files of a group as rows of the table's columns. What files of one schema have in common is found out once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.formats.iceberg.data.names import NAME_MAPPING, Names, has_ids, renamed, with_ids
from lakewarden.formats.iceberg.data.order import Input
from lakewarden.formats.iceberg.data.projection import Absent, projected
from lakewarden.formats.iceberg.data.source import BATCH_ROWS, Source
from lakewarden.formats.iceberg.data.together import MOST_BYTES, read_together
from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.formats.parquet_rows import aligned_batches, flat_columns
from lakewarden.model.errors import IncompleteManifestError, LakewardenError, UnsupportedTableError

# Files up to this size are read together: opening one costs as much as some hundred kilobytes of rows.
SMALL = 256 << 10


@dataclass(frozen=True, slots=True)
class _Shape:
    """How files of one schema are read: `columns` by name (None: all of them), `schema` with ids, `places` of the wanted
    fields in a batch where none has to be turned into another type."""

    parquet: pq.ParquetSchema
    arrow: pa.Schema
    schema: pa.Schema
    by_name: bool
    columns: tuple[str, ...] | None
    flat: tuple[int, ...]
    places: tuple[int, ...] | None

    def is_of(self, file: pq.ParquetFile) -> bool:
        return bool(self.parquet.equals(file.schema)) and self.arrow.equals(file.schema_arrow, check_metadata=True)


@dataclass(eq=False, slots=True)
class _Stretch:
    """The rows of several files, one file after the other, and how many of them were taken."""

    rows: pa.Table
    taken: int = 0

    def next(self, count: int) -> pa.Table:
        self.taken += count
        return self.rows.slice(self.taken - count, count)


class InputRows:
    """Reads data files under these fields; `names` is the mapping by which files without ids are read."""

    def __init__(self, fields: Sequence[pa.Field], absent: Absent, names: Names | None) -> None:
        self._fields, self._absent, self._names = list(fields), absent, names
        self._schema = pa.schema(self._fields)
        self._last: _Shape | None = None

    def of_some(self, some: Sequence[tuple[Input, Source]]) -> Iterator[tuple[list[Input], Iterator[pa.RecordBatch]]]:
        """All rows of these files, in their order: deletes that come meanwhile are carried over by counting. Small files of one
        shape that follow each other come together, each other file alone. Raises UnsupportedTableError for what cannot be
        read exactly, IncompleteManifestError for a damaged file."""
        stretches = self._stretches(some)
        for stretch, pairs in groupby(some, lambda pair: stretches.get(id(pair[0])) or pair[0]):
            inputs, sources = zip(*pairs, strict=True)
            if isinstance(stretch, _Stretch):
                yield list(inputs), iter(stretch.next(sum(one.rows for one in inputs)).to_batches())
            else:
                yield list(inputs), self._alone(sources[0], inputs[0].path)

    def _stretches(self, some: Sequence[tuple[Input, Source]]) -> dict[int, _Stretch]:
        """The rows of small files, by the files' ids in memory, as far as several of them have one shape."""
        small = [(one, source.data) for one, source in some if isinstance(source.data, bytes) and one.size <= SMALL]
        found: dict[int, _Stretch] = {}
        for joined in read_together([data for _, data in small], [one.rows for one, _ in small], self._together):
            stretch = _Stretch(pa.Table.from_batches(joined.rows))
            found.update((id(small[place][0]), stretch) for place in joined.places)
        return found

    def _alone(self, source: Source, path: str) -> Iterator[pa.RecordBatch]:
        """All rows of one file. What is wrong with it is said by its name: among thousands nobody would find it."""
        try:
            yield from self.of(source.opened(), path)
        except (pa.ArrowException, OSError, *GARBLED) as error:
            # A page that cannot be unpacked is an OSError, a text that is none a ValueError.
            raise IncompleteManifestError(
                f"{path} cannot be read ({type(error).__name__}: {error}); nothing was rewritten"
            ) from error

    def of(self, file: pq.ParquetFile, path: str) -> Iterator[pa.RecordBatch]:
        """All rows of a file. Raises UnsupportedTableError for what cannot be read exactly, ValueError for a damaged one."""
        shape = self._shape_of(file, path)
        all_rows = aligned_batches(file, shape.columns, BATCH_ROWS, shape.flat)
        for batch in all_rows if shape.columns != () else _empty(file):
            yield self._wanted(batch, shape)

    def _together(self, data: bytes) -> list[pa.RecordBatch] | None:
        """The rows of a file that stands for several; None if each has to be read by itself, and complained of by its name."""
        try:
            file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
            shape = self._shape_of(file, "")
            if shape.columns == () or len(shape.flat) < len(file.schema):
                return None  # a column within a list may have any number of values
            found: list[pa.RecordBatch] = []
            size = 0
            for groups in _some_row_groups(file.metadata):
                rows = file.read_row_groups(groups, columns=shape.columns, use_threads=False).combine_chunks()
                size += rows.nbytes
                if size > MOST_BYTES:
                    return None  # one long text that most rows have, among many short ones in its dictionary
                found += [self._wanted(batch, shape) for batch in rows.to_batches()]
            return found
        except (LakewardenError, pa.ArrowException, OSError, ValueError):
            return None

    def _wanted(self, batch: pa.RecordBatch, shape: _Shape) -> pa.RecordBatch:
        """The wanted fields of some rows."""
        if shape.places is not None:
            return pa.RecordBatch.from_arrays([batch.column(n) for n in shape.places], schema=self._schema)
        return projected(renamed(batch, shape.schema) if shape.by_name else batch, self._fields, self._absent)

    def _shape_of(self, file: pq.ParquetFile, path: str) -> _Shape:
        if self._last is None or not self._last.is_of(file):
            self._last = self._shape(file, path)
        return self._last

    def _shape(self, file: pq.ParquetFile, path: str) -> _Shape:
        schema = file.schema_arrow
        by_name = self._names is not None and not has_ids(schema)
        if by_name:
            assert self._names is not None
            schema = with_ids(schema, self._names)
        elif any(id_of(field) is None for field in schema):
            raise UnsupportedTableError(
                f"{path} was written before its table was Iceberg's, and its columns have no ids; "
                "nothing was rewritten",
                hint=f"Set the table's {NAME_MAPPING}, as Iceberg's own migration procedures do.",
            )
        if any(file.schema.column(place).physical_type == "INT96" for place in range(len(file.schema))):
            raise UnsupportedTableError(f"{path} stores times in an outdated form; nothing was rewritten")
        wanted = {id_of(field) for field in self._fields}
        present = [place for place, field in enumerate(schema) if id_of(field) in wanted]
        columns = None if len(present) == len(schema) else tuple(schema.field(place).name for place in present)
        places = None if by_name or not present else self._places([schema.field(place) for place in present])
        flat = tuple(flat_columns(file))
        return _Shape(file.schema, file.schema_arrow, schema, by_name, columns, flat, places)

    def _places(self, stored: Sequence[pa.Field]) -> tuple[int, ...] | None:
        """Where each wanted field is among these; None unless all are there, in the very types that are wanted."""
        found = {id_of(field): place for place, field in enumerate(stored)}
        places = tuple(found.get(id_of(field), -1) for field in self._fields)
        if len(found) < len(stored) or -1 in places:
            return None
        same = (
            stored[place].type.equals(field.type, check_metadata=True)
            for place, field in zip(places, self._fields, strict=True)
        )
        return places if all(same) else None


def _some_row_groups(footer: pq.FileMetaData) -> Iterator[list[int]]:
    """Row groups in their order, about as many rows at a time as two batches of one file have."""
    some: list[int] = []
    rows = 0
    for place in range(footer.num_row_groups):
        some.append(place)
        rows += footer.row_group(place).num_rows
        if rows >= 2 * BATCH_ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some


def _empty(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """As many rows as the file has, of no column."""
    left = file.metadata.num_rows
    while left > 0:
        rows = min(left, BATCH_ROWS)
        found: Any = pa.array([{}] * rows, pa.struct([]))
        yield pa.RecordBatch.from_struct_array(found)
        left -= rows
