"""New data files: written as the table's properties ask, rolled at the target size, described by what went into them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.formats.iceberg.data.metrics import Metrics
from lakewarden.formats.iceberg.data.order import NewFile
from lakewarden.model.errors import UnsupportedTableError

CODEC, LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"
ROW_GROUP, PAGE, DICTIONARY = (
    "write.parquet.row-group-size-bytes",
    "write.parquet.page-size-bytes",
    "write.parquet.dict-size-bytes",
)
BLOOM = "write.parquet.bloom-filter-enabled.column."
# What Iceberg's Java library gives to new tables.
DEFAULT_CODEC, DEFAULT_ROW_GROUP, DEFAULT_PAGE, DEFAULT_DICTIONARY = "zstd", 128 << 20, 1 << 20, 2 << 20
_CODECS = {"zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "brotli": "brotli", "uncompressed": "none"}
_MOST_ROWS = 1 << 20  # of one row group, which is in memory until it is written
_PIECE = 8 << 20


class Sink(Protocol):
    """Where finished files go."""

    def put_stream(self, uri: str, pieces: Iterator[bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class Form:
    """How a table wants its Parquet files written."""

    codec: str
    level: int | None
    row_group: int
    page: int
    dictionary: int

    @staticmethod
    def of(properties: Mapping[str, str]) -> Form:
        """Raises UnsupportedTableError for what Arrow cannot write."""
        if any(key.startswith(BLOOM) and value.lower() == "true" for key, value in properties.items()):
            raise UnsupportedTableError("the table wants bloom filters, which this version does not write")
        codec = properties.get(CODEC, DEFAULT_CODEC).lower()
        if codec not in _CODECS:
            raise UnsupportedTableError(
                f"the table wants files compressed by {codec}, which this version does not know"
            )
        level = properties.get(LEVEL)
        return Form(
            _CODECS[codec],
            int(level) if level is not None and codec in ("zstd", "gzip", "brotli") else None,
            int(properties.get(ROW_GROUP, DEFAULT_ROW_GROUP)),
            int(properties.get(PAGE, DEFAULT_PAGE)),
            int(properties.get(DICTIONARY, DEFAULT_DICTIONARY)),
        )


class Writer:
    """Takes rows in and leaves files of about the target size. Rows of one row group at a time are in memory."""

    def __init__(
        self, sink: Sink, prefix: str, schema: pa.Schema, properties: Mapping[str, str], target: int, scratch: Path
    ) -> None:
        self._sink, self._prefix, self._schema = sink, prefix, schema
        self._properties, self._target, self._scratch = properties, target, scratch
        self._form = Form.of(properties)
        self._file: pq.ParquetWriter | None = None
        self._metrics = Metrics(schema, properties)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._waiting_rows = self._waiting_bytes = 0
        self.files: list[NewFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        self._metrics.add(batch)
        # Decoded rows take more room than encoded ones, so a row group is rather too small than too large. Where files are
        # to be small, half of one is the most: a file ends with a row group.
        if self._waiting_bytes >= min(self._form.row_group, self._target // 2) or self._waiting_rows >= _MOST_ROWS:
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
        table = pa.Table.from_batches(self._waiting, schema=self._schema)
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
                write_page_index=True,
                write_page_checksum=True,
            )
        self._file.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _finish(self) -> None:
        """Close the file, send it off, and note what is to be said of it."""
        if self._file is None:
            return
        self._file.close()
        local, self._file = self._local, None
        uri = f"{self._prefix}-{len(self.files):05d}.parquet"
        self._sink.put_stream(uri, _pieces(local))
        self.files.append(_described(uri, local, self._rows, self._metrics))
        self._rows, self._metrics = 0, Metrics(self._schema, self._properties)


def _pieces(local: Path) -> Iterator[bytes]:
    with local.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _described(uri: str, local: Path, rows: int, metrics: Metrics) -> NewFile:
    footer = pq.read_metadata(local)
    assert footer.num_rows == rows
    values, nulls, nans = metrics.counts()
    lower, upper = metrics.bounds()
    return NewFile(
        path=uri,
        size=os.path.getsize(local),
        rows=rows,
        column_sizes=_column_sizes(footer, local, metrics),
        value_counts=values,
        null_counts=nulls,
        nan_counts=nans,
        lower={number: value.hex() for number, value in lower.items()},
        upper={number: value.hex() for number, value in upper.items()},
        split_offsets=tuple(_start(footer.row_group(place)) for place in range(footer.num_row_groups)),
    )


def _start(group: Any) -> int:
    first = group.column(0)
    return int(first.dictionary_page_offset or first.data_page_offset)


def _column_sizes(footer: Any, local: Path, metrics: Metrics) -> dict[int, int]:
    """The compressed bytes of each column that has values of its own."""
    paths = dict(_paths(pq.read_schema(local)))
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
