"""New data files: written as the table's options ask, rolled at the target size, described by what went into them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.formats.new_files import Waiting, pieces
from lakewarden.formats.paimon.data.order import NewFile
from lakewarden.formats.paimon.data.stats import Collector, modes_of
from lakewarden.formats.paimon.data.types import BY_PAIMON, SEQUENCE_NUMBER, Column, arrow_schema
from lakewarden.formats.paimon.metadata.options import memory, truth, whole
from lakewarden.model.errors import UnsupportedTableError

PREFIX, CODEC, LEVEL, BLOCK = "data-file.prefix", "file.compression", "file.compression.zstd-level", "file.block-size"
CODEC_IN_NAME = "file.suffix.include.compression"
_ROW_GROUP, _PAGE, _DICTIONARY, _ENCODED, _CODEC_HERE, _LEVEL_HERE = (
    "parquet.block.size",
    "parquet.page.size",
    "parquet.dictionary.page.size",
    "parquet.enable.dictionary",
    "parquet.compression",
    "parquet.compression.codec.zstd.level",
)
_FOR_READERS = ("parquet.filter.columnindex.enabled", "parquet.read.batch-size")
_PAGE_INDEX = "parquet.write-page-index.enabled"
KNOWN = (_ROW_GROUP, _PAGE, _DICTIONARY, _ENCODED, _CODEC_HERE, _LEVEL_HERE, _PAGE_INDEX, *_FOR_READERS)
DEFAULT_ROW_GROUP = 128 << 20
_CODECS = {"zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "none": "none", "uncompressed": "none"}


class Sink(Protocol):
    """Where finished files go."""

    def put_stream(self, uri: str, pieces: Iterator[bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class Form:
    """How a table wants its Parquet files written and named."""

    codec: str
    level: int | None
    row_group: int
    page: int
    dictionary_page: int
    dictionary: bool
    page_index: bool
    prefix: str
    suffix: str

    @staticmethod
    def of(options: Mapping[str, str]) -> Form:
        """Raises UnsupportedTableError for what Arrow does not write, ConfigError for what nobody can read."""
        for key in options:
            if key.startswith("parquet.") and key not in KNOWN:
                raise UnsupportedTableError(
                    f"the table has {key}, which this version does not know how to obey; nothing was rewritten",
                    hint=BY_PAIMON,
                )
        codec = options.get(_CODEC_HERE, options.get(CODEC, "zstd")).strip().lower()
        if codec not in _CODECS:
            raise UnsupportedTableError(
                f"the table wants files compressed by {codec}, which this version does not write", hint=BY_PAIMON
            )
        level = whole(options, _LEVEL_HERE, whole(options, LEVEL, 1))
        return Form(
            codec=_CODECS[codec],
            level=level if codec == "zstd" else None,
            row_group=memory(options, _ROW_GROUP, memory(options, BLOCK, DEFAULT_ROW_GROUP)),
            page=memory(options, _PAGE, 1 << 20),
            dictionary_page=memory(options, _DICTIONARY, 1 << 20),
            dictionary=truth(options, _ENCODED, True),
            page_index=truth(options, _PAGE_INDEX, True),
            prefix=options.get(PREFIX, "data-"),
            suffix=f".{codec}.parquet" if truth(options, CODEC_IN_NAME) else ".parquet",
        )


class Writer:
    """Takes rows in and leaves files of about the target size. Rows of one row group at a time are in memory.

    Rows of tables without row tracking are numbered from `first` on; the others bring their numbers along.
    """

    def __init__(
        self,
        sink: Sink,
        directory: str,
        columns: Sequence[Column],
        tracking: Sequence[Column],
        options: Mapping[str, str],
        target: int,
        first: int,
        scratch: Path,
    ) -> None:
        self._sink, self._directory, self._target, self._scratch = sink, directory, target, scratch
        self._columns, self._modes = columns, modes_of(options, columns)
        self._schema = arrow_schema([*columns, *tracking])
        self._tracked, self._next = bool(tracking), first
        self._form = Form.of(options)
        self._name = f"{self._form.prefix}{uuid.uuid4()}"
        self._file: pq.ParquetWriter | None = None
        self._waiting = Waiting(self._schema, self._form.row_group, target)
        self._begin()
        self.files: list[NewFile] = []

    def _begin(self) -> None:
        self._stats = Collector(self._columns, self._modes)
        self._rows = 0
        self._sequences: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._stats.add(batch)
        if self._tracked:
            ends = pc.min_max(batch.column(SEQUENCE_NUMBER))
            self._sequences += [ends["min"].as_py(), ends["max"].as_py()]
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
        table = self._waiting.taken()
        if self._file is None:
            self._file = pq.ParquetWriter(
                self._local,
                self._schema,
                compression=self._form.codec,
                compression_level=self._form.level,
                use_dictionary=self._form.dictionary,
                data_page_size=self._form.page,
                dictionary_pagesize_limit=self._form.dictionary_page,
                write_page_index=self._form.page_index,
                write_page_checksum=True,
                store_schema=False,
                store_decimal_as_integer=True,
            )
        self._file.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows

    def _finish(self) -> None:
        """Close the file, send it off, and note what is to be said of it."""
        if self._file is None:
            return
        self._file.close()
        local, self._file = self._local, None
        path = f"{self._directory}{self._name}-{len(self.files)}{self._form.suffix}"
        self._sink.put_stream(path, pieces(local))
        stats = self._stats.found()
        numbers = self._sequences if self._tracked else [self._next, self._next + self._rows - 1]
        self._next += self._rows
        self.files.append(
            NewFile(
                path=path,
                size=local.stat().st_size,
                rows=self._rows,
                min_sequence=min(numbers),
                max_sequence=max(numbers),
                stats_columns=stats.columns,
                least=stats.least.hex(),
                greatest=stats.greatest.hex(),
                nulls=stats.nulls,
            )
        )
        self._begin()
