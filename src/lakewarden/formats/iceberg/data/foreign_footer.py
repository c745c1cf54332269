"""A Parquet file's footer, field by field, so that its row groups can be named at another place.

Only what this module knows is carried: a field that a later version of Parquet adds may hold a place in the file, and a
footer that has one is not copied.
"""

from __future__ import annotations

import struct as packing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.formats.iceberg.data.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    GarbledError,
    Items,
    Struct,
    dumps,
    loads,
)

MAGIC = b"PAR1"
# The footer's length and the magic bytes, at the end of every file.
TRAILER = 8
# A footer is a hundred times as large in memory as in its file, so one that is larger than this is left to Arrow.
LARGEST = 2 << 20

# Numbers of fields, as parquet.thrift has them.
VERSION, SCHEMA, ROWS, GROUPS, PAIRS, CREATED_BY, ORDERS, ENCRYPTION, SIGNING = range(1, 10)
CHUNKS, TOTAL_BYTES, GROUP_ROWS, SORTING, GROUP_OFFSET, GROUP_COMPRESSED, ORDINAL = range(1, 8)
FILE_PATH, FILE_OFFSET, META, OFFSET_AT, OFFSET_LENGTH, INDEX_AT, INDEX_LENGTH, CRYPTO, CRYPTED = range(1, 10)
TYPE, ENCODINGS, PATH, CODEC, VALUES, UNPACKED, PACKED, CHUNK_PAIRS, DATA_AT, INDEX_PAGE_AT, DICTIONARY_AT = range(
    1, 12
)
STATISTICS, ENCODING_STATISTICS, BLOOM_AT, BLOOM_LENGTH, SIZE_STATISTICS = range(12, 17)
_KNOWN_OF_FILE = frozenset(range(VERSION, ORDERS + 1))
_KNOWN_OF_GROUP = frozenset(range(CHUNKS, ORDINAL + 1))
_KNOWN_OF_CHUNK = frozenset({FILE_OFFSET, META, OFFSET_AT, OFFSET_LENGTH, INDEX_AT, INDEX_LENGTH})
_KNOWN_OF_META = frozenset(range(TYPE, ENCODING_STATISTICS + 1)) | {SIZE_STATISTICS}
_LARGEST_ORDINAL = (1 << 15) - 1
_INDEXES = ((OFFSET_AT, OFFSET_LENGTH), (INDEX_AT, INDEX_LENGTH))


class NotCopiedError(Exception):
    """Why row groups cannot be copied as they are. Nothing is wrong with the file: its rows are read and written instead."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The bytes of one column in one row group: where they are, and what the footer says of them."""

    struct: Struct
    start: int
    length: int

    @property
    def meta(self) -> Struct:
        found: Struct = self.struct[META].value
        return found

    @property
    def values(self) -> int:
        return int(self.meta[VALUES].value)

    @property
    def codec(self) -> int:
        return int(self.meta[CODEC].value)

    @property
    def path(self) -> tuple[bytes, ...]:
        return tuple(self.meta[PATH].value.values)

    @property
    def statistics(self) -> Struct:
        found: Struct = self.meta[STATISTICS].value if STATISTICS in self.meta else {}
        return found

    def index(self, at: int, length: int) -> tuple[int, int] | None:
        """Where an index of the chunk's pages lies, if it has one."""
        if at not in self.struct or length not in self.struct:
            return None
        return int(self.struct[at].value), int(self.struct[length].value)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that lie together, column by column."""

    struct: Struct
    rows: int
    chunks: tuple[Chunk, ...]

    @property
    def bytes(self) -> int:
        return sum(chunk.length for chunk in self.chunks)

    @property
    def index_bytes(self) -> int:
        """How long the indexes of its pages are together."""
        places = (chunk.index(*kind) for chunk in self.chunks for kind in _INDEXES)
        return sum(place[1] for place in places if place is not None)


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    struct: Struct
    rows: int
    groups: tuple[RowGroup, ...]

    @property
    def schema(self) -> Sequence[Struct]:
        found: Sequence[Struct] = self.struct[SCHEMA].value.values
        return found

    @property
    def created_by(self) -> str:
        return self.struct[CREATED_BY].value.decode(errors="replace") if CREATED_BY in self.struct else ""

    @property
    def pairs(self) -> Mapping[bytes, bytes]:
        """The file's own keys and values."""
        found = self.struct[PAIRS].value.values if PAIRS in self.struct else []
        return {pair[1].value: pair[2].value for pair in found if 2 in pair}


def footer_length(end: bytes) -> int:
    """How long a footer is, by the last bytes of its file. Raises NotCopiedError."""
    if len(end) < TRAILER or end[-4:] != MAGIC:
        raise NotCopiedError("a file is encrypted, or no Parquet file")
    length = int(packing.unpack("<I", end[-TRAILER:-4])[0])
    if length > LARGEST:
        raise NotCopiedError(f"a footer has {length} bytes, and at most {LARGEST} are copied")
    return length


def parse_footer(data: bytes, size: int) -> Footer:
    """A footer, without its trailer, of a file of this size. Raises NotCopiedError for what cannot be named at another place."""
    try:
        found, end = loads(data)
        if end != len(data):
            raise GarbledError("more bytes follow it")
        limit = size - TRAILER - len(data)
        _known(found, _KNOWN_OF_FILE, "the file")
        groups = tuple(_group(one, limit) for one in _structs(found, GROUPS))
        rows = _number(found, ROWS)
        _structs(found, SCHEMA)
    except (GarbledError, LookupError, TypeError, AttributeError) as error:
        raise NotCopiedError(f"a footer cannot be read ({type(error).__name__}: {error})") from error
    if rows != sum(group.rows for group in groups):
        raise NotCopiedError("a footer counts other rows than its row groups")
    if sum(group.bytes + group.index_bytes for group in groups) > limit:
        raise NotCopiedError("row groups of a file lie upon each other")
    return Footer(found, rows, groups)


def _group(found: Struct, limit: int) -> RowGroup:
    _known(found, _KNOWN_OF_GROUP, "a row group")
    if (rows := _number(found, GROUP_ROWS)) < 0:
        raise GarbledError("a row group has less than no rows")
    return RowGroup(found, rows, tuple(_chunk(one, limit) for one in _structs(found, CHUNKS)))


def _chunk(found: Struct, limit: int) -> Chunk:
    if BLOOM_AT in (meta := found[META].value):
        raise NotCopiedError("a file has bloom filters")
    _known(found, _KNOWN_OF_CHUNK, "a column")
    _known(meta, _KNOWN_OF_META, "a column")
    dictionary = _number(meta, DICTIONARY_AT) if DICTIONARY_AT in meta else 0
    data, length = _number(meta, DATA_AT), _number(meta, PACKED)
    # Some writers say 0 where there is no dictionary.
    start = min(dictionary, data) if dictionary > 0 else data
    if _number(meta, VALUES) == 0:
        # A column of no rows lies nowhere, whatever is said of its place.
        start, length = len(MAGIC), 0
    if (
        start < len(MAGIC)
        or length < 0
        or start + length > limit
        or min(_number(meta, VALUES), _number(meta, CODEC)) < 0
    ):
        raise GarbledError("a column lies outside of the file")
    chunk = Chunk(found, start, length)
    _structs({1: Field(LIST, Items(STRUCT, [chunk.statistics]))}, 1)
    if any(not isinstance(name, bytes) for name in chunk.path):
        raise GarbledError("a column has no name")
    for place in (chunk.index(*kind) for kind in _INDEXES):
        if place is not None and (place[0] < len(MAGIC) or not 0 <= place[1] <= LARGEST or sum(place) > limit):
            raise GarbledError("an index lies outside of the file, or is too large")
    return chunk


def _known(found: Struct, numbers: frozenset[int], what: str) -> None:
    if strange := sorted(set(found) - numbers):
        raise NotCopiedError(f"{what} has the field {strange[0]} in its footer, which is encryption, or not known")


def _structs(found: Struct, number: int) -> list[Struct]:
    kind, items = found[number]
    if (
        kind != LIST
        or (items.kind != STRUCT and items.values)
        or not all(isinstance(one, dict) for one in items.values)
    ):
        raise GarbledError(f"the field {number} is no list of structs")
    values: list[Struct] = items.values
    return values


def _number(found: Struct, number: int) -> int:
    value = found[number].value
    if not isinstance(value, int) or isinstance(value, bool):
        raise GarbledError(f"the field {number} is no number")
    return value


def moved_chunk(chunk: Chunk, start: int, indexes: Mapping[int, tuple[int, int]]) -> Struct:
    """A chunk's struct with its bytes at another place, and its indexes at the places and of the lengths given."""
    moved = {n: _shifted(chunk.meta[n], start - chunk.start) if n in _PLACES else chunk.meta[n] for n in chunk.meta}
    new = dict(chunk.struct)
    new[FILE_OFFSET] = Field(I64, 0)
    new[META] = Field(STRUCT, moved)
    for number in (OFFSET_AT, INDEX_AT):
        for one in (number, number + 1):
            new.pop(one, None)
        if number in indexes:
            at, length = indexes[number]
            new |= {number: Field(I64, at), number + 1: Field(I32, length)}
    return new


_PLACES = (DATA_AT, INDEX_PAGE_AT, DICTIONARY_AT)


def _shifted(place: Field, by: int) -> Field:
    # Zero is no place, but a way to say that there is none.
    return Field(place.kind, place.value + by) if place.value > 0 else place


def moved_group(group: RowGroup, chunks: Sequence[Struct], start: int, number: int) -> Struct:
    """A row group's struct with its chunks at other places."""
    new = dict(group.struct)
    new[CHUNKS] = Field(LIST, Items(STRUCT, list(chunks)))
    new[GROUP_OFFSET] = Field(I64, start)
    new.pop(ORDINAL, None)
    if ORDINAL in group.struct and number <= _LARGEST_ORDINAL:
        new[ORDINAL] = Field(group.struct[ORDINAL].kind, number)
    return new


def moved_index(data: bytes, by: int) -> bytes:
    """An offset index, whose pages lie so many bytes later. Raises GarbledError."""
    found, end = loads(data)
    if end != len(data) or set(found) - {1, 2}:
        raise GarbledError("an index of pages has a field that is not known, or more bytes follow it")
    places = [{**one, 1: Field(I64, _number(one, 1) + by)} for one in _structs(found, 1)]
    return dumps({**found, 1: Field(LIST, Items(STRUCT, places))})


def new_footer(footers: Sequence[Footer], groups: Sequence[Struct], rows: int, created_by: str) -> bytes:
    """The footer of a file that has these row groups, trailer and all. Keys and values of the old files are not taken over:
    they were said of other rows."""
    first = footers[0].struct
    version = max(int(footer.struct[VERSION].value) for footer in footers)
    new: dict[int, Any] = {
        VERSION: Field(I32, version),
        SCHEMA: first[SCHEMA],
        ROWS: Field(I64, rows),
        GROUPS: Field(LIST, Items(STRUCT, list(groups))),
        CREATED_BY: Field(BINARY, created_by.encode()),
    }
    if ORDERS in first:
        new[ORDERS] = first[ORDERS]
    data = dumps(new)
    return data + packing.pack("<I", len(data)) + MAGIC
