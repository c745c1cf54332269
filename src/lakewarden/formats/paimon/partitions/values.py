"""What the bytes of a partition say: Paimon's binary row of the partition columns, as typed values."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal

from lakewarden.formats.paimon.metadata.table import Schema
from lakewarden.model.errors import UnsupportedTableError

DEFAULT_NAME = "__DEFAULT_PARTITION__"

Value = bool | int | float | str | bytes | Decimal | date | time | datetime | None

_TYPE = re.compile(
    r"([A-Z_]+)\s*(?:\(\s*([0-9]{1,10})\s*(?:,\s*([0-9]{1,10})\s*)?\))?\s*(WITH LOCAL TIME ZONE)?\s*(?:NOT NULL)?"
)
_SAME = {
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "CHAR": "STRING",
    "VARCHAR": "STRING",
    "BINARY": "BYTES",
    "VARBINARY": "BYTES",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
}
_FIXED = {
    "TINYINT": "<b",
    "SMALLINT": "<h",
    "INT": "<i",
    "BIGINT": "<q",
    "FLOAT": "<f",
    "DOUBLE": "<d",
    "BOOLEAN": "<?",
}
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Column:
    """A partition column: `type` is one name a kind of value, `precision` and `scale` are Paimon's."""

    name: str
    type: str
    precision: int = 0
    scale: int = 0


def partition_columns(schema: Schema) -> tuple[Column, ...]:
    """The partition columns in the order of the bytes. Raises UnsupportedTableError for a type nobody knows."""
    types = {field["name"]: field["type"] for field in schema.fields}
    return tuple(_column(key, types.get(key)) for key in schema.partition_keys)


def decode(partition: bytes, columns: Sequence[Column]) -> tuple[Value, ...]:
    """The values of `_PARTITION`. Raises ValueError if the bytes cannot be what the columns say.

    TIMESTAMP comes back without a zone, TIMESTAMP WITH LOCAL TIME ZONE in UTC; both cut to microseconds.
    """
    if len(partition) < 4 or int.from_bytes(partition[:4], "big") != len(columns):
        raise ValueError(f"the partition has other columns than {[column.name for column in columns]}")
    row = partition[4:]
    # One byte of header, then one bit a column, filled up to whole words.
    start = (len(columns) + 63 + 8) // 64 * 8
    try:
        return tuple(
            None if row[(i + 8) // 8] >> (i + 8) % 8 & 1 else _READERS[column.type](row, start + 8 * i, column)
            for i, column in enumerate(columns)
        )
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"the partition's bytes cannot be read ({error})") from error


def spelled(value: Value, zone: tzinfo = UTC) -> str:
    """A value as text: dates and times as people write them, not as the numbers they are stored as."""
    if isinstance(value, datetime):
        local = value if value.tzinfo is None else value.astimezone(zone).replace(tzinfo=None)
        return local.isoformat(" ")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def label(columns: Sequence[Column], values: Sequence[Value], default_name: str = DEFAULT_NAME) -> str:
    """A partition for people: `dt=2024-01-31/hour=5`."""
    return "/".join(
        f"{column.name}={default_name if value is None else spelled(value)}"
        for column, value in zip(columns, values, strict=True)
    )


def _column(name: str, written: object) -> Column:
    found = _TYPE.fullmatch(written.strip().upper()) if isinstance(written, str) else None
    if found is not None:
        kind = _SAME.get(found[1], found[1])
        if kind == "TIMESTAMP" and found[4]:
            kind = "TIMESTAMP_LTZ"
        if kind in _READERS:
            default = 10 if kind == "DECIMAL" else 6 if kind.startswith("TIMESTAMP") else 0
            return Column(name, kind, int(found[2] or default), int(found[3] or 0))
    raise UnsupportedTableError(f"partition column {name} has the type {written!r}, which no partition can have")


def _number(row: bytes, at: int, column: Column) -> int | float | bool:
    found: int | float | bool = struct.unpack_from(_FIXED[column.type], row, at)[0]
    return found


def _bytes(row: bytes, at: int) -> bytes:
    """Seven bytes or fewer lie in the slot itself, marked by its highest bit; longer ones behind the slots."""
    mark = row[at + 7]
    if mark & 0x80:
        return row[at : at + (mark & 0x7F)]
    length, offset = struct.unpack_from("<II", row, at)
    if offset + length > len(row):
        raise IndexError("a value lies outside of it")
    return row[offset : offset + length]


def _decimal(row: bytes, at: int, column: Column) -> Decimal:
    if column.precision <= 18:
        unscaled = struct.unpack_from("<q", row, at)[0]
    else:
        length, offset = struct.unpack_from("<II", row, at)
        if offset + length > len(row):
            raise IndexError("a value lies outside of it")
        unscaled = int.from_bytes(row[offset : offset + length], "big", signed=True)
    return Decimal((unscaled < 0, tuple(int(digit) for digit in str(abs(unscaled))), -column.scale))


def _timestamp(row: bytes, at: int, column: Column) -> datetime:
    if column.precision <= 3:
        millis, nanos = struct.unpack_from("<q", row, at)[0], 0
    else:
        nanos, offset = struct.unpack_from("<II", row, at)
        millis = struct.unpack_from("<q", row, offset)[0]
    moment = _EPOCH + timedelta(milliseconds=millis, microseconds=nanos // 1000)
    return moment.replace(tzinfo=UTC) if column.type == "TIMESTAMP_LTZ" else moment


def _date(row: bytes, at: int, column: Column) -> date:
    return (_EPOCH + timedelta(days=struct.unpack_from("<i", row, at)[0])).date()


def _time(row: bytes, at: int, column: Column) -> time:
    return (_EPOCH + timedelta(milliseconds=struct.unpack_from("<i", row, at)[0])).time()


_READERS: dict[str, Callable[[bytes, int, Column], Value]] = {
    **dict.fromkeys(_FIXED, _number),
    "STRING": lambda row, at, column: _bytes(row, at).decode(),
    "BYTES": lambda row, at, column: _bytes(row, at),
    "DECIMAL": _decimal,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp,
    "DATE": _date,
    "TIME": _time,
}
