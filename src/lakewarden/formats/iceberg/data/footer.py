"""The footer of a Parquet file: what it says of its columns and where they lie, read and put in place again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lakewarden.formats.iceberg.data.thrift import FALSE, LIST, STRUCT, Field, Struct, dumps, loads

MAGIC = b"PAR1"
_TAIL = 8  # the footer's length and the magic word
# Fields by number, as the format's own definition has them.
SCHEMA, ROW_GROUPS = 2, 4
NAME, CHILDREN, FIELD_ID, LOGICAL = 4, 5, 9, 10
COLUMNS, META_DATA = 1, 3
PATH, BLOOM_OFFSET, BLOOM_LENGTH = 3, 14, 15
# Logical types that Arrow cannot be told of.
_TIME, _UUID, _ADJUSTED = 7, 14, 1


def read_footer(file: Path) -> tuple[Struct, int]:
    """The footer of a file, and where it begins. Raises ValueError for what is no Parquet file."""
    with file.open("rb") as data:
        size = data.seek(0, 2)
        data.seek(max(0, size - _TAIL))
        tail = data.read()
        start = size - _TAIL - int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or start < len(MAGIC):
            raise ValueError(f"{file} is no Parquet file")
        data.seek(start)
        return loads(data.read(size - _TAIL - start))[0], start


def write_footer(file: Path, footer: Struct, before: bytes, start: int) -> None:
    """Put this footer in the place of the file's own, with these bytes in front of it."""
    body = dumps(footer)
    with file.open("r+b") as data:
        data.seek(start)
        data.write(before + body + len(body).to_bytes(4, "little") + MAGIC)
        data.truncate()


def annotate(footer: Struct, kinds: Mapping[int, str]) -> None:
    """Say of columns, by id, what Arrow cannot: that they are uuids, or times of no zone.

    Raises ValueError if a column is not there as it is expected.
    """
    left = dict(kinds)
    for element in footer[SCHEMA][1][1]:
        number = element.get(FIELD_ID, (0, None))[1]
        kind = left.pop(number, None)
        if kind == "uuid":
            element[LOGICAL] = Field(STRUCT, {_UUID: Field(STRUCT, {})})
        elif kind == "time":
            element[LOGICAL][1][_TIME][1][_ADJUSTED] = Field(FALSE, False)
    if left:
        raise ValueError(f"the columns {sorted(left)} are not in the file")


def column_chunks(footer: Struct) -> Iterator[tuple[int, tuple[str, ...], Struct]]:
    """What the footer says of each column's values: the row group, the column's path, and the fields to be changed."""
    for place, group in enumerate(footer[ROW_GROUPS][1][1]):
        for chunk in group[COLUMNS][1][1]:
            fields: Struct = chunk[META_DATA][1]
            yield place, tuple(_texts(fields[PATH])), fields


def _texts(field: tuple[int, Any]) -> Iterator[str]:
    assert field[0] == LIST
    yield from (part.decode() for part in field[1][1])
