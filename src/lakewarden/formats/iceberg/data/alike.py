"""What many small Parquet files of one shape say of themselves: their columns and pages, read in lockstep.

A file takes part only if its schema, keys and writer are those of the first file, byte for byte, if it has one row group of
as many rows as its manifest says, and if every page is where its footer says, whole, and all pages of a column together hold
a value, or null, for each row.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lakewarden.formats.iceberg.data import pages
from lakewarden.formats.iceberg.data.foreign_footer import (
    CHUNKS,
    CODEC,
    CRYPTED,
    CRYPTO,
    DATA_AT,
    DICTIONARY_AT,
    ENCODINGS,
    ENCRYPTION,
    FILE_PATH,
    GROUP_ROWS,
    GROUPS,
    MAGIC,
    META,
    PACKED,
    PATH,
    ROWS,
    SIGNING,
    TRAILER,
    TYPE,
    VALUES,
)
from lakewarden.formats.iceberg.data.lockstep import Lockstep, Numbers
from lakewarden.formats.iceberg.data.thrift import I32, I64, LIST, STRUCT, Items, Struct, loads

DATA_PAGE, DICTIONARY_PAGE = 0, 2
# What the headers of pages tell beside their sizes: how many values, and how these and their levels are encoded.
_TOLD = {DATA_PAGE: (1, 2, 3, 4), DICTIONARY_PAGE: (1, 2)}
_SIZES = (pages.KIND, pages.UNPACKED, pages.PACKED, pages.CHECKSUM)
_SAME = {TYPE: I32, CODEC: I32}
_COUNTED = {VALUES: I64, PACKED: I64, DATA_AT: I64}


class ApartError(Exception):
    """Why files of one shape cannot be read together; each is read by itself."""


@dataclass(frozen=True, slots=True)
class Page:
    """The same page of one column in each file: numbers of its header, the length that it unpacks to, and its bytes."""

    kind: int
    told: dict[int, Numbers]
    unpacked: Numbers
    bodies: Sequence[memoryview]


@dataclass(frozen=True, slots=True)
class Column:
    """The same column in each file. `encodings` and `path` are those of all of them, as thrift has them."""

    type: int
    codec: int
    encodings: Items
    path: Items
    starts: Numbers
    packed: Numbers
    pages: list[Page] = field(default_factory=list)


def read_alike(files: list[bytes], rows: Numbers) -> tuple[Struct, list[Column]]:
    """The footer of the first file, and the columns of all.

    Raises UnlikeError for those that are not as the first one is, ApartError where none can be read in this way, and
    whatever garbled bytes make of it (GARBLED).
    """
    step = Lockstep(files)
    step.begin_with(MAGIC)
    ends = step.at_ends(TRAILER)
    step.require((ends[:, 4:] == np.frombuffer(MAGIC, np.uint8)).all(axis=1))
    lengths = ends[:, :4].copy().view("<u4").reshape(len(files)).astype(np.int64)
    step.go(step.sizes - TRAILER - lengths, step.sizes - TRAILER)
    first, _ = loads(step.bytes, int(step.at[0]))
    columns: list[Column] = []
    for number, kind in step.fields():
        if number == ROWS and kind == I64:
            step.require(step.signed() == rows)
        elif number == GROUPS and kind == LIST:
            if step.members() != (1, STRUCT):
                raise ApartError("they have several row groups")
            columns = _columns(step, rows, first[GROUPS].value.values[0])
        elif number in (ENCRYPTION, SIGNING):
            raise ApartError("they are encrypted")
        else:
            step.constant(kind)
    step.require(step.finished())
    _check_apart(step, columns)
    for column in columns:
        column.pages.extend(_pages(step, column, rows))
    return first, columns


def _check_apart(step: Lockstep, columns: Sequence[Column]) -> None:
    """A thousand columns that are all said to lie in the same place would be a thousand times as many pages as there are."""
    if not columns:
        raise ApartError("they have no columns")
    packed = np.stack([column.packed for column in columns])
    step.require(packed.min(axis=0) >= 0)
    # Each by itself too: sums of numbers that large may wrap around.
    step.require(packed.max(axis=0) <= step.sizes)
    step.require(packed.sum(axis=0) <= step.sizes)


def _columns(step: Lockstep, rows: Numbers, first: Struct) -> list[Column]:
    found: list[Column] = []
    for number, kind in step.fields():
        if number == CHUNKS and kind == LIST:
            count, _ = step.members()
            found = [_column(step, rows, first[CHUNKS].value.values[place]) for place in range(count)]
        elif number == GROUP_ROWS and kind == I64:
            step.require(step.signed() == rows)
        else:
            step.skip(kind)
    return found


def _column(step: Lockstep, rows: Numbers, first: Struct) -> Column:
    found: Column | None = None
    for number, kind in step.fields():
        if number == META and kind == STRUCT:
            found = _described(step, rows, first[META].value)
        elif number in (FILE_PATH, CRYPTO, CRYPTED):
            raise ApartError("a column lies elsewhere, or is encrypted")
        else:
            step.skip(kind)
    if found is None:
        raise ApartError("a column is not described")
    return found


def _described(step: Lockstep, rows: Numbers, first: Struct) -> Column:
    same: dict[int, int] = {}
    said: dict[int, Numbers] = {DICTIONARY_AT: np.zeros(len(rows), np.int64)}
    for number, kind in step.fields():
        if _SAME.get(number) == kind:
            same[number] = step.same(step.signed())
        elif _COUNTED.get(number) == kind or (number, kind) == (DICTIONARY_AT, I64):
            said[number] = step.signed()
        elif number in (ENCODINGS, PATH):
            step.constant(kind)
        else:
            step.skip(kind)
    step.require(said[VALUES] == rows)
    dictionary, data = said[DICTIONARY_AT], said[DATA_AT]
    # Some writers say 0 where there is no dictionary.
    starts = np.where(dictionary > 0, np.minimum(dictionary, data), data)
    step.require(starts >= len(MAGIC))
    return Column(same[TYPE], same[CODEC], first[ENCODINGS].value, first[PATH].value, starts, said[PACKED])


def _pages(step: Lockstep, column: Column, rows: Numbers) -> list[Page]:
    """The pages of a column, which fill it, and have a value, or null, for each row."""
    step.go(column.starts, column.starts + column.packed)
    found: list[Page] = []
    values = np.zeros(len(rows), np.int64)
    while not step.same(step.finished().astype(np.int64)):
        page = _page(step)
        if page.kind == DATA_PAGE:
            values = values + page.told[1]
        elif found:
            raise ApartError("a dictionary comes late")
        found.append(page)
    step.require(values == rows)
    if not any(page.kind == DATA_PAGE for page in found):
        raise ApartError("a column has no pages")
    return found


def _page(step: Lockstep) -> Page:
    numbers: dict[int, Numbers] = {}
    # Apart for each kind of page: a header may tell of several, and only what it tells of its own is true.
    told_of: dict[int, dict[int, Numbers]] = {pages.DATA: {}, pages.DICTIONARY: {}}
    for number, kind in step.fields():
        if number in _SIZES and kind == I32:
            numbers[number] = step.signed()
        elif number in told_of and kind == STRUCT:
            for inner, of_inner in step.fields():
                if of_inner == I32:
                    told_of[number][inner] = step.signed()
                else:
                    step.skip(of_inner)
        else:
            step.skip(kind)
    kind = step.same(numbers[pages.KIND])
    if kind not in _TOLD:
        raise ApartError("they have pages of another kind")
    told = told_of[pages.DATA if kind == DATA_PAGE else pages.DICTIONARY]
    for value in (*told.values(), numbers[pages.UNPACKED]):
        step.require(value >= 0)
    starts, view = step.pass_by(numbers[pages.PACKED]).tolist(), memoryview(step.bytes)
    bodies = [view[start:end] for start, end in zip(starts, step.at.tolist(), strict=True)]
    if pages.CHECKSUM in numbers:
        # As the signed number of 32 bits that it is stored as.
        sums = np.array([zlib.crc32(body) for body in bodies], np.uint32).view(np.int32)
        step.require(sums == numbers[pages.CHECKSUM])
    return Page(kind, {number: told[number] for number in _TOLD[kind]}, numbers[pages.UNPACKED], bodies)
