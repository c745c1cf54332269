"""A table's columns as a schema file spells them, and the same in Arrow's words.

Only types that Arrow writes into Parquet exactly as Paimon's own writer does are here. A timestamp finer than microseconds
is stored in an outdated form, and blobs, variants, vectors and multisets have forms of their own: tables with these are left
to Paimon's own compaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewarden.model.errors import UnsupportedTableError

BY_PAIMON = "Compact this table with Paimon's own compact procedure."
FIELD_ID = b"PARQUET:field_id"
# Columns of row tracking, which files store once rows move.
ROW_ID, SEQUENCE_NUMBER = "_ROW_ID", "_SEQUENCE_NUMBER"
_TRACKING_IDS = {ROW_ID: 2147483642, SEQUENCE_NUMBER: 2147483646}

STRING, BYTES, DECIMAL, TIMESTAMP, ZONED = "STRING", "BYTES", "DECIMAL", "TIMESTAMP", "TIMESTAMP_LTZ"
ARRAY, MAP, ROW = "ARRAY", "MAP", "ROW"
LONGEST = 2147483647
_TYPE = re.compile(
    r"([A-Z_]+)\s*(?:\(\s*([0-9]{1,10})\s*(?:,\s*([0-9]{1,10})\s*)?\))?\s*(WITH LOCAL TIME ZONE)?\s*(NOT NULL)?"
)
# The names that one type goes by, and the length that a name without one means.
_SAME = {
    "INTEGER": ("INT", 0),
    "STRING": (STRING, LONGEST),
    "VARCHAR": (STRING, 1),
    "BYTES": (BYTES, LONGEST),
    "VARBINARY": (BYTES, 1),
    "NUMERIC": (DECIMAL, 0),
    "DEC": (DECIMAL, 0),
}
_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    STRING: pa.string(),
    "CHAR": pa.string(),
    BYTES: pa.binary(),
    "BINARY": pa.binary(),
}
# Ids of elements, keys and values are made of their column's: Paimon numbers only columns and members of rows.
_NESTED_IDS, _DEPTHS = LONGEST // 4, 1024


@dataclass(frozen=True, slots=True)
class Type:
    """One type. `length` is that of a text or of bytes, `members` are those of a row, `within` an array's element or a map's
    key and value."""

    kind: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    members: tuple[Column, ...] = ()
    within: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a member of a row: by its id it is known in files of every age."""

    id: int
    name: str
    type: Type


def columns_of(fields: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The columns of a schema. Raises UnsupportedTableError for a type that is not written exactly."""
    return tuple(Column(int(field["id"]), str(field["name"]), _type(field["type"])) for field in fields)


def tracking_columns() -> tuple[Column, ...]:
    """What a file of a table with row tracking stores of rows that were moved."""
    return tuple(Column(number, name, Type("BIGINT")) for name, number in _TRACKING_IDS.items())


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns as files hold them, each with its id."""
    return pa.schema([_field(column) for column in columns])


def arrow_type(kind: Type, number: int = 0, depth: int = 0) -> pa.DataType:
    """One type; `number` is the id of the column that it is within, at that depth."""
    if kind.kind == ROW:
        return pa.struct([_field(member) for member in kind.members])
    if kind.kind == ARRAY:
        return pa.list_(_inner("element", kind.within[0], number, depth + 1))
    if kind.kind == MAP:
        key, value = kind.within
        return pa.map_(
            _inner("key", key, number, depth + 1, sign=-1).with_nullable(False),
            _inner("value", value, number, depth + 1),
        )
    if kind.kind == DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    if kind.kind in (TIMESTAMP, ZONED):
        return pa.timestamp("ms" if kind.precision <= 3 else "us", tz="UTC" if kind.kind == ZONED else None)
    return _PLAIN[kind.kind]


def _inner(name: str, kind: Type, number: int, depth: int, sign: int = 1) -> pa.Field:
    made = _NESTED_IDS + sign * (_DEPTHS * number + depth)
    return _numbered(pa.field(name, arrow_type(kind, number, depth), kind.nullable), made)


def _field(column: Column) -> pa.Field:
    return _numbered(pa.field(column.name, arrow_type(column.type, column.id), column.type.nullable), column.id)


def _numbered(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(number).encode()})


def _type(written: Any) -> Type:
    if isinstance(written, Mapping):
        return _nested(written)
    found = _TYPE.fullmatch(str(written).strip().upper())
    if found is None:
        raise _unsupported(written)
    kind, length = _SAME.get(found[1], (found[1], 0))
    nullable = found[5] is None
    first, second = (None if text is None else int(text) for text in (found[2], found[3]))
    if kind in (STRING, BYTES, "CHAR", "BINARY"):
        return Type(kind, nullable, length=first or length or 1)
    if kind == DECIMAL:
        return Type(kind, nullable, precision=10 if first is None else first, scale=second or 0)
    if kind in (TIMESTAMP, ZONED):
        precision = 6 if first is None else first
        if precision > 6:
            raise _unsupported(written)
        return Type(ZONED if found[4] or kind == ZONED else kind, nullable, precision=precision)
    if kind not in _PLAIN:
        raise _unsupported(written)
    return Type(kind, nullable)


def _nested(written: Mapping[str, Any]) -> Type:
    name, _, rest = str(written["type"]).upper().partition(" ")
    nullable = "NOT NULL" not in rest
    if name == ROW:
        return Type(ROW, nullable, members=columns_of(written["fields"]))
    if name == ARRAY:
        return Type(ARRAY, nullable, within=(_type(written["element"]),))
    if name == MAP:
        return Type(MAP, nullable, within=(_type(written["key"]), _type(written["value"])))
    raise _unsupported(name)


def _unsupported(kind: object) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"a column of type {kind} cannot be carried exactly into a new file by this version; nothing was rewritten",
        hint=BY_PAIMON,
    )
