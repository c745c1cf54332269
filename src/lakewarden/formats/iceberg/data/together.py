"""Small files of one shape, read together: Arrow decodes their pages as row groups of one file that is only in memory.

To open a file, and to set up its columns, costs more than its few rows. So the pages of many files are unpacked and named to
Arrow by one footer. Files that cannot take part are read by themselves, and it is there that what is wrong with one is
found, and said of it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from numpy.typing import NDArray

from lakewarden.formats.iceberg.data import pages
from lakewarden.formats.iceberg.data.alike import DATA_PAGE, DICTIONARY_PAGE, ApartError, Column, Page, read_alike
from lakewarden.formats.iceberg.data.foreign_footer import (
    CHUNKS,
    CODEC,
    CREATED_BY,
    DATA_AT,
    DICTIONARY_AT,
    ENCODINGS,
    FILE_OFFSET,
    GROUP_ROWS,
    GROUPS,
    MAGIC,
    META,
    PACKED,
    PAIRS,
    PATH,
    ROWS,
    SCHEMA,
    TOTAL_BYTES,
    TYPE,
    UNPACKED,
    VALUES,
    VERSION,
)
from lakewarden.formats.iceberg.data.lockstep import Numbers, UnlikeError
from lakewarden.formats.iceberg.data.thrift import I32, I64, LIST, STRUCT, Field, Items, Struct, dumps
from lakewarden.formats.iceberg.metadata.document import GARBLED

# Fewer files are not worth it.
LEAST = 8
# So many shapes are looked for among the files of one batch, and so often files are told apart for each.
_SHAPES, _TRIES = 4, 8
# The most that the rows of one batch may take in memory, and the most that one value of a fixed size takes there.
MOST_BYTES = 128 << 20
_VALUE = 16
# Arrow makes a new context for every page of zstd, which in a virtual machine costs twice as much as to unpack a small one.
_NONE, _ZSTD = 0, 6
_TYPES = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7}
# The bytes of a number in a struct that is the same for all files but for its numbers. Thrift's may be longer than need be.
_WIDTH = 5
Slot = Callable[[Numbers], int]


@dataclass(frozen=True, slots=True)
class Joined:
    """Files by their place in the list, in the order of the list, and their rows, one file after the other."""

    places: Sequence[int]
    rows: Sequence[pa.RecordBatch]


def read_together(
    files: Sequence[bytes], rows: Sequence[int], read: Callable[[bytes], Sequence[pa.RecordBatch] | None]
) -> list[Joined]:
    """The rows of these files, as many as each should have, as far as several of them have one shape.

    `read` is given the file that stands for some, and answers None if each of them has to be read by itself.
    """
    found: list[Joined] = []
    left = [place for place in range(len(files)) if rows[place]]  # of files without rows there is nothing to read
    for _ in range(_SHAPES):
        if len(left) < LEAST:
            break
        places, file, left = _told_apart(files, rows, left)
        batches = read(file) if file is not None else None
        # No column has more values than rows in any file, so all of them have as many if they have together.
        if batches is not None and sum(batch.num_rows for batch in batches) == sum(rows[place] for place in places):
            found.append(Joined(places, batches))
    return found


def _told_apart(
    files: Sequence[bytes], rows: Sequence[int], places: list[int]
) -> tuple[list[int], bytes | None, list[int]]:
    """The files that have the shape of the first, one that stands for them, and those of other shapes."""
    others: list[int] = []
    for _ in range(_TRIES):
        if len(places) < LEAST:
            break
        try:
            return places, joined([files[n] for n in places], np.array([rows[n] for n in places], np.int64)), others
        except UnlikeError as error:
            others += [n for n, other in zip(places, error.others, strict=True) if other]
            places = [n for n, other in zip(places, error.others, strict=True) if not other]
        except (ApartError, zstandard.ZstdError, *GARBLED):
            break
    return [], None, sorted(others)


def joined(files: list[bytes], rows: Numbers) -> bytes:
    """One file that has the rows of all of these, each as a row group of pages that are not packed."""
    footer, columns = read_alike(files, rows)
    _check_first(files[0], columns)
    if sum(_decoded(column, rows) for column in columns) > MOST_BYTES:
        raise ApartError("they are too large together")
    parts: list[bytes | memoryview] = [MAGIC]
    at = len(MAGIC)
    placed: list[_Placed] = []
    for column in columns:
        headers = [_Template(len(rows), partial(_header, page)) for page in column.pages]
        lengths = np.stack([one.width + page.unpacked for one, page in zip(headers, column.pages, strict=True)], axis=1)
        starts = at + np.cumsum(lengths).reshape(lengths.shape) - lengths
        pieces: list[Sequence[bytes | memoryview]] = []
        for header, page in zip(headers, column.pages, strict=True):
            pieces += [header.each(), _unpacked(page, column.codec)]
        for of_file in zip(*pieces, strict=True):
            parts.extend(of_file)
        placed.append(_Placed(column, starts, lengths.sum(axis=1)))
        at += int(lengths.sum())
    groups = _Template(len(rows), partial(_row_group, placed, rows)).each()
    said = {number: footer[number] for number in (VERSION, SCHEMA, PAIRS, CREATED_BY) if number in footer}
    end = dumps({**said, ROWS: Field(I64, int(rows.sum())), GROUPS: Field(LIST, Items(STRUCT, groups))})
    return b"".join([*parts, end, len(end).to_bytes(4, "little"), MAGIC])


def _check_first(file: bytes, columns: Sequence[Column]) -> None:
    """Arrow must take the first footer as it is: what all of them have, and the new one has not, may be wrong in all."""
    try:
        found = pq.read_metadata(pa.BufferReader(file))
        group = found.row_group(0)
        for place in range(group.num_columns):
            group.column(place)
        types = [_TYPES.get(found.schema.column(place).physical_type) for place in range(len(found.schema))]
    except (pa.ArrowException, OSError) as error:
        raise ApartError("their footers are not what Arrow takes") from error
    if types != [column.type for column in columns]:
        raise ApartError("they say of a column that it is of another type than their schema says")


def _decoded(column: Column, rows: Numbers) -> int:
    """About how many bytes a column's values take once they are decoded.

    Its pages tell too little: of nulls they have only a count, and of values that come again a dictionary has each once.
    """
    found = _VALUE * int(rows.sum()) + sum(int(page.unpacked.sum()) for page in column.pages)
    if column.pages[0].kind == DICTIONARY_PAGE:
        dictionary = column.pages[0]
        found += int((rows * (dictionary.unpacked / np.maximum(dictionary.told[1], 1))).sum())
    return found


def _unpacked(page: Page, codec: int) -> Sequence[bytes | memoryview]:
    """A page of each file, as long as its header says."""
    wanted = page.unpacked.tolist()
    found: list[bytes | memoryview] = []
    if codec == _ZSTD:
        reader = zstandard.ZstdDecompressor()
        for body, length in zip(page.bodies, wanted, strict=True):
            # A frame may announce any length, which would be made room for.
            if zstandard.frame_content_size(body) not in (length, -1):
                raise ApartError("a page has another length than its header says")
            if not length and not _is_empty_frame(bytes(body)):
                raise ApartError("a page of nothing is damaged")
            found.append(reader.decompress(body, max_output_size=length, allow_extra_data=False))
    elif codec == _NONE:
        found = list(page.bodies)
    else:
        raise ApartError("their codec is left to Arrow")
    if [len(body) for body in found] != wanted:
        raise ApartError("a page has another length than its header says")
    return found


@lru_cache(maxsize=64)
def _is_empty_frame(body: bytes) -> bool:
    """Whether Arrow takes these bytes for a page of no bytes; zstandard does not look at what follows such a frame's length."""
    try:
        return len(pa.Codec("zstd").decompress(body, 0)) == 0
    except (pa.ArrowException, OSError):
        return False


@dataclass(frozen=True, slots=True)
class _Placed:
    """A column's pages in the new file: where each begins, by file, and how long all of a file are."""

    column: Column
    starts: Numbers
    lengths: Numbers

    def chunk(self, rows: Numbers, slot: Slot) -> Struct:
        data = 1 if self.column.pages[0].kind == DICTIONARY_PAGE else 0
        meta: Struct = {
            TYPE: Field(I32, self.column.type),
            ENCODINGS: Field(LIST, self.column.encodings),
            PATH: Field(LIST, self.column.path),
            CODEC: Field(I32, _NONE),
            VALUES: Field(I64, slot(rows)),
            UNPACKED: Field(I64, slot(self.lengths)),
            PACKED: Field(I64, slot(self.lengths)),
            DATA_AT: Field(I64, slot(self.starts[:, data])),
        }
        if data:
            meta[DICTIONARY_AT] = Field(I64, slot(self.starts[:, 0]))
        return {FILE_OFFSET: Field(I64, 0), META: Field(STRUCT, meta)}


def _row_group(placed: Sequence[_Placed], rows: Numbers, slot: Slot) -> Struct:
    return {
        CHUNKS: Field(LIST, Items(STRUCT, [one.chunk(rows, slot) for one in placed])),
        TOTAL_BYTES: Field(I64, slot(np.sum([one.lengths for one in placed], axis=0))),
        GROUP_ROWS: Field(I64, slot(rows)),
    }


def _header(page: Page, slot: Slot) -> Struct:
    return {
        pages.KIND: Field(I32, page.kind),
        pages.UNPACKED: Field(I32, slot(page.unpacked)),
        pages.PACKED: Field(I32, slot(page.unpacked)),
        pages.DATA if page.kind == DATA_PAGE else pages.DICTIONARY: Field(
            STRUCT, {number: Field(I32, slot(values)) for number, values in page.told.items()}
        ),
    }


class _Template:
    """The bytes of one struct for each file. It is put together once, with marks where numbers differ, which are then filled."""

    def __init__(self, count: int, build: Callable[[Slot], Struct]) -> None:
        self._slots: list[Numbers] = []
        made = dumps(build(self._slot))
        self._rows: NDArray[np.uint8] = np.tile(np.frombuffer(made, np.uint8), (count, 1))
        for number, values in enumerate(self._slots):
            mark = dumps({1: Field(I64, _mark(number))})[1:-1]
            if made.count(mark) != 1 or int(values.max()) >= _mark(len(self._slots)):
                raise ApartError("a number does not fit")
            self._fill(made.index(mark), values)

    @property
    def width(self) -> int:
        return int(self._rows.shape[1])

    def each(self) -> list[bytes]:
        data = self._rows.tobytes()
        return [data[at : at + self.width] for at in range(0, len(data), self.width)]

    def _slot(self, values: Numbers) -> int:
        self._slots.append(values)
        return _mark(len(self._slots) - 1)

    def _fill(self, at: int, values: Numbers) -> None:
        for place in range(_WIDTH):
            more = 128 if place < _WIDTH - 1 else 0
            self._rows[:, at + place] = (values << 1 >> 7 * place) & 127 | more


def _mark(number: int) -> int:
    """A number that takes the whole width."""
    return (1 << 7 * _WIDTH - 1) - 1 - number
