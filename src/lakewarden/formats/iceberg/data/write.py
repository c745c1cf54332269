"""New data files: written as the table's properties ask, rolled at the target size, described by what went into them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.formats.iceberg.data.bloom import bloom_filter
from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.formats.iceberg.data.footer import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    annotate,
    column_chunks,
    read_footer,
    write_footer,
)
from lakewarden.formats.iceberg.data.form import Form, check_columns, leaves
from lakewarden.formats.iceberg.data.metrics import Metrics
from lakewarden.formats.iceberg.data.order import NewFile
from lakewarden.formats.iceberg.data.places import Spread
from lakewarden.formats.iceberg.data.statistics import as_column
from lakewarden.formats.iceberg.data.thrift import I32, I64, Field
from lakewarden.formats.new_files import Waiting, pieces
from lakewarden.model.errors import IncompleteManifestError

_MANY = 32  # batches of a row group
# The longest text that Arrow's encoder notes as an end of a row group.
_NOTED = 4096


class Sink(Protocol):
    """Where finished files go."""

    def put_stream(self, uri: str, pieces: Iterator[bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class Style:
    """What a file is to be beside its rows: `properties` of the table, columns that Arrow does not annotate (`kinds`, by id),
    and the order in which rows come, which is none unless they are sorted."""

    properties: Mapping[str, str]
    kinds: Mapping[int, str] = field(default_factory=dict)
    sort_order: int = 0
    sorted_by: tuple[str, ...] = ()

    def metrics(self, schema: pa.Schema) -> Metrics:
        return Metrics(
            schema, self.properties, self.sorted_by, frozenset(n for n, kind in self.kinds.items() if kind == "uuid")
        )


class Writer:
    """Takes rows in and leaves files of about the target size. Rows of one row group at a time are in memory."""

    def __init__(
        self,
        sink: Sink,
        prefix: str,
        schema: pa.Schema,
        style: Style,
        target: int,
        scratch: Path,
        spread: Spread | None = None,
    ) -> None:
        self._sink, self._prefix, self._schema, self._spread = sink, prefix, schema, spread
        self._style, self._target, self._scratch = style, target, scratch
        self._form = Form.of(style.properties)
        check_columns(self._form, schema)
        self._paths = {name: path for name, path, _ in leaves(schema)}
        # Arrow takes a column by its dotted name, which a member of a struct and another column may share.
        self._statistics = {**self._form.statistics, **dict.fromkeys(self._uuids(), False)}
        self._file: pq.ParquetWriter | None = None
        self._metrics = style.metrics(schema)
        self._texts = dict(self._texts_with_statistics())
        # Of the file in the making, by row group: the columns whose ends the encoder notes, and, by column too, the filters.
        self._noted: list[list[int]] = []
        self._filters: dict[tuple[int, tuple[str, ...]], bytes] = {}
        self._waiting = Waiting(self._schema, self._form.row_group, target)
        self._rows = 0
        self.files: list[NewFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._waiting.add(batch):
            self._write_row_group()
            if self._local.stat().st_size >= self._target:
                self._finish()

    def close(self) -> None:
        self._write_row_group()
        self._finish()

    @property
    def _local(self) -> Path:
        return self._scratch / f"{len(self.files)}.parquet"

    def _write_row_group(self) -> None:
        if not self._waiting:
            return
        many = len(self._waiting) > _MANY
        table = self._waiting.taken()
        if many:
            # Rows of many small files: counted and encoded together, instead of a few at a time.
            table = table.combine_chunks()
        noted = [number for number, (_, found) in self._texts.items() if _is_noted(table.column(found.name))]
        for batch in table.to_batches():
            self._metrics.add(batch, counted=noted)
        if self._file is None:
            self._file = pq.ParquetWriter(
                self._local,
                self._schema,
                compression=self._form.codec,
                compression_level=self._form.level,
                data_page_size=self._form.page,
                dictionary_pagesize_limit=self._form.dictionary,
                store_schema=False,
                store_decimal_as_integer=True,
                use_dictionary=self._columns_with(self._form.encoded),
                write_statistics=self._columns_with(self._statistics),
                data_page_version=self._form.page_version,
                write_page_index=True,
                write_page_checksum=True,
            )
        self._file.write_table(table, row_group_size=table.num_rows)
        for name, wanted in self._form.blooms.items():
            if name in self._paths:
                column = _column(table, self._paths[name])
                self._filters[len(self._noted), self._paths[name]] = bloom_filter(
                    column, wanted.false_positives, wanted.most_bytes, wanted.distinct
                )
        self._noted.append(noted)
        self._rows += table.num_rows

    def _texts_with_statistics(self) -> Iterator[tuple[int, tuple[int, pa.Field]]]:
        """Columns of text that want bounds, by their ids, with their places in the file. The encoder looks for their least and
        greatest values, and that costs too much to be done twice."""
        places = {path: place for place, (_, path, _) in enumerate(leaves(self._schema))}
        for found in self._schema:
            text = pa.types.is_string(found.type) or pa.types.is_binary(found.type)
            number = id_of(found) if text and self._statistics.get(found.name, True) else None
            if number is not None and self._metrics.bounded(number):
                yield number, (places[found.name,], found)

    def _uuids(self) -> Iterator[str]:
        """Columns whose least and greatest values in the footer would mislead: Java's readers compare uuids by signed halves."""
        yield from (name for name, number in _paths(self._schema) if self._style.kinds.get(number) == "uuid")

    def _columns_with(self, said: Mapping[str, bool]) -> bool | list[str]:
        """The columns for which the owner did not say no, as Arrow wants to be told."""
        if all(said.values()):
            return True
        return [".".join(path) for name, path in self._paths.items() if said.get(name, True)]

    def _finish(self) -> None:
        """Close the file, put right what it says of itself, send it off, and note what is to be said of it."""
        if self._file is None:
            return
        self._file.close()
        local, self._file = self._local, None
        self._complete(local)
        footer = pq.read_metadata(local)
        assert footer.num_rows == self._rows
        for group, noted in enumerate(self._noted):
            for number in noted:
                place, found = self._texts[number]
                self._metrics.widen(number, _ends(footer, group, place, found))
        uri = f"{self._prefix}-{len(self.files):05d}.parquet"
        uri = uri if self._spread is None else self._spread.place(uri)
        self._sink.put_stream(uri, pieces(local))
        self.files.append(described(uri, os.path.getsize(local), footer, self._metrics, self._style.sort_order))
        self._rows, self._metrics = 0, self._style.metrics(self._schema)
        self._noted, self._filters = [], {}

    def _complete(self, local: Path) -> None:
        """Say in the footer what Arrow does not write: the types of columns that it cannot annotate, and filters."""
        if not self._style.kinds and not self._filters:
            return
        footer, start = read_footer(local)
        annotate(footer, self._style.kinds)
        before = bytearray()
        for group, path, chunk in column_chunks(footer):
            if (found := self._filters.get((group, path))) is not None:
                chunk[BLOOM_OFFSET] = Field(I64, start + len(before))
                chunk[BLOOM_LENGTH] = Field(I32, len(found))
                before += found
        write_footer(local, footer, bytes(before), start)


def _column(table: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    """A column, or a member of a struct, of which a missing struct has none."""
    found = table.column(path[0])
    for name in path[1:]:
        place = found.type.get_field_index(name)
        found = pa.chunked_array([chunk.flatten()[place] for chunk in found.chunks], found.type.field(place).type)
    return found


def _is_noted(texts: pa.ChunkedArray) -> bool:
    """Whether the encoder will say between which ends these are: it does unless one of them is long, or all are null."""
    longest = pc.max(pc.binary_length(texts)).as_py()
    return longest is not None and longest <= _NOTED


def _ends(footer: pq.FileMetaData, group: int, place: int, text: pa.Field) -> pa.Array:
    """The least and the greatest text of a column in a row group, as its encoder noted them."""
    said = footer.row_group(group).column(place).statistics
    if said is None or not said.has_min_max:
        raise IncompleteManifestError(f"Arrow has noted no bounds of {text.name}; nothing was rewritten")
    return as_column([said.min_raw, said.max_raw], text.type)


def described(uri: str, size: int, footer: pq.FileMetaData, metrics: Metrics, sort_order: int = 0) -> NewFile:
    """What the manifest will say of a file that has this footer and these counts and bounds."""
    values, nulls, nans = metrics.counts()
    lower, upper = metrics.bounds()
    return NewFile(
        path=uri,
        size=size,
        rows=footer.num_rows,
        column_sizes=_column_sizes(footer, metrics),
        value_counts=values,
        null_counts=nulls,
        nan_counts=nans,
        lower={number: value.hex() for number, value in lower.items()},
        upper={number: value.hex() for number, value in upper.items()},
        split_offsets=tuple(_start(footer.row_group(place)) for place in range(footer.num_row_groups)),
        sort_order_id=sort_order,
    )


def _start(group: Any) -> int:
    first = group.column(0)
    return int(first.dictionary_page_offset or first.data_page_offset)


def _column_sizes(footer: pq.FileMetaData, metrics: Metrics) -> dict[int, int]:
    """The compressed bytes of each column that has values of its own."""
    paths = dict(_paths(footer.schema.to_arrow_schema()))
    sizes: dict[int, int] = {}
    for group in (footer.row_group(place) for place in range(footer.num_row_groups)):
        for column in (group.column(place) for place in range(group.num_columns)):
            number = paths.get(column.path_in_schema)
            if number is not None and metrics.wanted(number):
                sizes[number] = sizes.get(number, 0) + int(column.total_compressed_size)
    return sizes


def _paths(fields: Any, above: str = "") -> Iterator[tuple[str, int]]:
    for found in fields:
        if pa.types.is_struct(found.type):
            yield from _paths(found.type, f"{above}{found.name}.")
        elif not pa.types.is_nested(found.type) and (number := id_of(found)) is not None:
            yield f"{above}{found.name}", number
