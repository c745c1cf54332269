"""Row groups copied into new files byte for byte: not a value is encoded, and a footer of their own says where they lie now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.iceberg.data.columns import annotated, arrow_schema, id_of, lineage_columns
from lakewarden.formats.iceberg.data.foreign_footer import (
    INDEX_AT,
    INDEX_LENGTH,
    LARGEST,
    MAGIC,
    OFFSET_AT,
    OFFSET_LENGTH,
    TRAILER,
    Footer,
    NotCopiedError,
    footer_length,
    moved_chunk,
    moved_group,
    moved_index,
    new_footer,
    parse_footer,
)
from lakewarden.formats.iceberg.data.metrics import Metrics
from lakewarden.formats.iceberg.data.order import COPIED, Input, NewFile, Order, Rewritten
from lakewarden.formats.iceberg.data.pages import PageWalk
from lakewarden.formats.iceberg.data.parquet_schema import expected_elements
from lakewarden.formats.iceberg.data.projection import Absent, projected
from lakewarden.formats.iceberg.data.row_groups import Leaf, Piece, bins, checked_pieces, created_by, why_not
from lakewarden.formats.iceberg.data.source import BATCH_ROWS, DataFiles, Source, Sources
from lakewarden.formats.iceberg.data.statistics import Ends, as_column, ends_of
from lakewarden.formats.iceberg.data.thrift import Struct
from lakewarden.formats.iceberg.data.told import check_told
from lakewarden.formats.iceberg.data.write import Style, described
from lakewarden.formats.iceberg.manifests.files import ROW_IDS
from lakewarden.model.errors import IncompleteManifestError
from lakewarden.model.uri import canonical

# Enough for most footers, so that one request reads them.
_TAIL = 64 << 10
_READERS = 8
# Footers of a group are in memory together, so all of them together are at most twice as large as one may be.
_FOOTERS = 2 * LARGEST


def copied(order: Order, files: DataFiles) -> Rewritten:
    """The group in new files that hold its row groups as they are.

    Raises NotCopiedError, before anything is written, where that would not be exact; ValueError or a LakewardenError for files
    that are damaged.
    """
    if (why := why_not(order)) is not None:
        raise NotCopiedError(why)
    return _Copy(order, files).copied()


class _Copy:
    def __init__(self, order: Order, files: DataFiles) -> None:
        self._order, self._files = order, files
        lineage = lineage_columns() if order.version >= ROW_IDS else []
        self._schema = pa.schema([*arrow_schema(order.columns), *lineage])
        self._lineage = {str(one.name): int(id_of(one) or 0) for one in lineage}
        self._elements = expected_elements(order.columns, self._lineage)
        self._leaves = [leaf for leaf in Leaf.of(self._elements) if not leaf.repeated]
        self._kinds = list(_kinds(self._leaves, self._schema))

    def copied(self) -> Rewritten:
        footers = self._footers()
        pieces = checked_pieces(self._order, footers, self._elements, self._lineage)
        self._check_schema(_opened(new_footer(footers, (), 0, created_by(footers))))
        self._check_told(pieces)
        made: list[NewFile] = []
        sources = Sources(self._files, self._order.inputs)
        try:
            for some in bins(self._order, pieces):
                made.append(self._written(f"{self._order.prefix}-{len(made):05d}.parquet", some, footers, sources))
        finally:
            sources.close()
        rows = sum(one.rows for one in self._order.inputs)
        if sum(file.rows for file in made) != rows:
            raise IncompleteManifestError(f"{rows} rows became others; nothing of the group was changed")
        return Rewritten(self._order.group, rows, 0, tuple(made), way=COPIED)

    def _footers(self) -> list[Footer]:
        with ThreadPoolExecutor(_READERS) as pool:
            ends = list(pool.map(self._end, self._order.inputs))
        if sum(len(end) for end in ends) > _FOOTERS:
            raise NotCopiedError(f"its footers have more than {_FOOTERS} bytes")
        return [parse_footer(end, one.size) for end, one in zip(ends, self._order.inputs, strict=True)]

    def _end(self, one: Input) -> bytes:
        """The bytes of an input's footer."""
        uri, length = canonical(one.path), min(one.size, _TAIL)
        end = self._files.get_range(uri, one.size - length, length)
        if len(end) != length:
            raise IncompleteManifestError(f"{one.path} is shorter than {one.size} bytes; nothing was rewritten")
        wanted = footer_length(end) + TRAILER
        if wanted > one.size:
            raise NotCopiedError(f"{one.path} is shorter than its footer says")
        if wanted > length:
            end = self._files.get_range(uri, one.size - wanted, wanted)
        # What Arrow does not read, other readers may read otherwise: its bytes are not put under a footer that is sound.
        _opened(end[-wanted:])
        return end[-wanted:-TRAILER]

    def _check_told(self, pieces: Sequence[Piece]) -> None:
        style, kinds = Style(self._order.properties, annotated(self._order.columns)), dict(self._kinds)
        for place, one in enumerate(self._order.inputs):
            if one.told is not None:
                mine = [piece for piece in pieces if piece.source == place]
                check_told(one.path, one.told, mine, kinds, style.metrics(self._schema))

    def _check_schema(self, found: pq.FileMetaData) -> None:
        """Arrow must see the table's columns and ids in the new footer too."""
        if _shape(found.schema.to_arrow_schema()) != _shape(self._schema):
            raise NotCopiedError("Arrow sees other columns in its files than the table has now")

    def _written(self, uri: str, pieces: Sequence[Piece], footers: Sequence[Footer], sources: Sources) -> NewFile:
        uri = uri if self._order.spread is None else self._order.spread.place(uri)
        style = Style(self._order.properties, annotated(self._order.columns))
        with ThreadPoolExecutor(1) as pool:
            file = _NewFile(pieces, footers, sources, self._leaves, style.metrics(self._schema), pool)
            self._files.put_stream(uri, file.bytes())
        # Read back from where it was put: a file that is not there whole has another end.
        end = self._files.get_range(uri, file.size - len(file.footer), len(file.footer))
        found = _opened(end) if end == file.footer else None
        if found is None or found.num_rows != file.rows or found.num_row_groups != len(pieces):
            raise IncompleteManifestError(f"{uri} was not written whole; nothing of the group was changed")
        self._check_schema(found)
        return described(uri, file.size, found, file.metrics)


@dataclass
class _NewFile:
    """One file in the making. What is said of it is known once its bytes were all drawn."""

    pieces: Sequence[Piece]
    footers: Sequence[Footer]
    sources: Sources
    leaves: Sequence[Leaf]
    metrics: Metrics
    pool: ThreadPoolExecutor
    size: int = 0
    footer: bytes = b""
    _known: list[tuple[int, Ends]] = field(default_factory=list)
    _reading: Future[None] | None = None

    @property
    def rows(self) -> int:
        return sum(piece.group.rows for piece in self.pieces)

    def bytes(self) -> Iterator[bytes]:
        yield self._passed(MAGIC)
        starts: list[list[int]] = []
        indexes: list[tuple[int, int, int, bytes]] = []
        for place, piece in enumerate(self.pieces):
            source = self.sources.at(piece.source)
            self._measure(piece, source)
            starts.append([])
            for column, chunk in enumerate(piece.group.chunks):
                starts[-1].append(self.size)
                indexes += [(place, column, n, data) for n, data in _indexes(piece, column, source, self.size)]
                walk = PageWalk(chunk.values)
                for part in source.pieces(chunk.start, chunk.length):
                    walk.take(part)
                    yield self._passed(part)
                walk.close()
        places: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        # The indexes of values first, then those of places: as every writer lays them out.
        for place, column, number, data in sorted(indexes, key=lambda one: (-one[2], one[0], one[1])):
            places.setdefault((place, column), {})[number] = (self.size, len(data))
            yield self._passed(data)
        groups: list[Struct] = []
        for place, piece in enumerate(self.pieces):
            chunks = [
                moved_chunk(chunk, starts[place][column], places.get((place, column), {}))
                for column, chunk in enumerate(piece.group.chunks)
            ]
            groups.append(moved_group(piece.group, chunks, min(starts[place]), place))
        self._note()
        self.footer = new_footer(self.footers, groups, self.rows, created_by(self.footers))
        yield self._passed(self.footer)

    def _passed(self, data: Any) -> Any:
        self.size += len(data)
        return data

    def _measure(self, piece: Piece, source: Source) -> None:
        """Counts and ends of a row group: by its footer where that is proven, else by its rows."""
        read: set[int] = set()
        for leaf in self.leaves:
            number = leaf.element.number
            assert number is not None
            if not self.metrics.wanted(number):
                continue
            found = ends_of(piece.footer, leaf.place, piece.chunk(leaf), leaf.element)
            if found is None:
                read.add(number)
            else:
                self._known.append((number, found))
        if read:
            # Beside the copying, and one row group at a time: the bytes of at most two files are in memory for it.
            self._wait()
            self._reading = self.pool.submit(self._read, piece, source, read)

    def _wait(self) -> None:
        if self._reading is not None:
            self._reading.result()

    def _read(self, piece: Piece, source: Source, numbers: set[int]) -> None:
        tops = {leaf.path[0] for leaf in self.leaves if leaf.element.number in numbers}
        fields = [one for one in self.metrics.schema if one.name in tops]
        rows = 0
        try:
            file = source.opened()
            for batch in file.iter_batches(BATCH_ROWS, [piece.number], columns=sorted(tops), use_threads=False):
                self.metrics.add(projected(batch, fields, Absent()), numbers)
                rows += batch.num_rows
        except OSError as error:
            # So Arrow calls a page that cannot be unpacked; to the store that draws these bytes it would be a failure of its own.
            raise ValueError(str(error)) from error
        if rows != piece.group.rows:
            raise ValueError(f"a row group has {rows} rows and should have {piece.group.rows}")

    def _note(self) -> None:
        """Take what footers say into the counts and bounds, once nobody else is at them."""
        self._wait()
        kinds = {leaf.element.number: kind for leaf, kind in _kinds(self.leaves, self.metrics.schema)}
        ends: dict[int, list[Any]] = {}
        for number, found in self._known:
            self.metrics.count(number, found.values, found.nulls)
            ends.setdefault(number, []).extend(found.ends)
        for number, some in ends.items():
            if some:
                self.metrics.widen(number, as_column(some, kinds[number]))


def _shape(fields: Any) -> list[Any]:
    """Names, ids and types at every depth: what Arrow calls the entries of a map does not count."""
    found: list[Any] = []
    for one in fields:
        if pa.types.is_map(one.type):
            inside: Any = ("map", _shape([one.type.key_field, one.type.item_field]))
        elif pa.types.is_list(one.type):
            inside = ("list", _shape([one.type.value_field]))
        else:
            inside = ("struct", _shape(one.type)) if pa.types.is_struct(one.type) else one.type
        found.append((one.name, id_of(one), inside))
    return found


def _kinds(leaves: Sequence[Leaf], schema: pa.Schema) -> Iterator[tuple[Leaf, pa.DataType]]:
    for leaf in leaves:
        kind = schema.field(leaf.path[0]).type
        for name in leaf.path[1:]:
            kind = kind.field(name).type
        yield leaf, kind


def _indexes(piece: Piece, column: int, source: Source, start: int) -> Iterator[tuple[int, bytes]]:
    """The indexes of a chunk's pages, if it has any, for the place where the chunk will begin."""
    chunk = piece.group.chunks[column]
    if (found := chunk.index(INDEX_AT, INDEX_LENGTH)) is not None:
        yield INDEX_AT, source.stretch(*found)
    if (found := chunk.index(OFFSET_AT, OFFSET_LENGTH)) is not None:
        yield OFFSET_AT, moved_index(source.stretch(*found), start - chunk.start)


def _opened(end: bytes) -> pq.FileMetaData:
    """What Arrow finds in a footer."""
    return pq.read_metadata(BytesIO(MAGIC + end))
