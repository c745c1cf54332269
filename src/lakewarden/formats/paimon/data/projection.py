"""Rows of a file as the table's columns are now: a file's columns have the names of its own schema, and ids join the two.

A column that came later is null. A null list stays null and an empty one empty, at every depth.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakewarden.formats.paimon.data.types import (
    ARRAY,
    BY_PAIMON,
    BYTES,
    DECIMAL,
    MAP,
    ROW,
    STRING,
    Column,
    Type,
    arrow_schema,
    arrow_type,
)
from lakewarden.model.errors import UnsupportedTableError

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def projected(batch: pa.RecordBatch, was: Sequence[Column], now: Sequence[Column]) -> pa.RecordBatch:
    """The rows of a batch, whose columns go by the names that they `was`, under the columns of now.

    Raises UnsupportedTableError for what cannot be turned into them exactly.
    """
    had = {column.id: column for column in was}
    columns = []
    for wanted in now:
        found = had.get(wanted.id)
        columns.append(_absent(wanted, batch.num_rows) if found is None else _column(batch, found, wanted))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(now))


def turned(array: pa.Array, was: Type, now: Type) -> pa.Array:
    """Values of one type in another. Raises UnsupportedTableError unless each stays what it is."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if was.kind == now.kind == ROW:
        return _row(array, was, now)
    if was.kind == now.kind == ARRAY:
        return _list(array, was, now)
    if was.kind == now.kind == MAP:
        return _map(array, was, now)
    if not _wider(was, now):
        raise _unlike(was.kind, now.kind)
    return _plain(array, was, arrow_type(now))


def _wider(was: Type, now: Type) -> bool:
    """Whether every value of one type is the same value of the other, for Paimon's own readers too."""
    if was.kind in _WHOLE and now.kind in _WHOLE:
        return _WHOLE.index(was.kind) <= _WHOLE.index(now.kind)
    if (was.kind, now.kind) == ("FLOAT", "DOUBLE"):
        return True
    if was.kind != now.kind:
        return False
    if now.kind in (STRING, BYTES):
        return was.length <= now.length
    if now.kind == DECIMAL:
        return was.scale == now.scale and was.precision <= now.precision
    return (was.length, was.precision) == (now.length, now.precision)


def _column(batch: pa.RecordBatch, was: Column, now: Column) -> pa.Array:
    place = batch.schema.get_field_index(was.name)
    if place < 0:
        raise UnsupportedTableError(
            f"a file lacks the column {was.name}, which its schema has; nothing was rewritten", hint=BY_PAIMON
        )
    found = turned(batch.column(place), was.type, now.type)
    if found.null_count and not now.type.nullable:
        raise UnsupportedTableError(
            f"a file has nulls in the column {now.name}, which may have none; nothing was rewritten", hint=BY_PAIMON
        )
    return found


def _absent(wanted: Column, rows: int) -> pa.Array:
    if not wanted.type.nullable:
        raise UnsupportedTableError(
            f"a file is older than the column {wanted.name}, which may not be null; nothing was rewritten",
            hint=BY_PAIMON,
        )
    return pa.nulls(rows, arrow_type(wanted.type, wanted.id))


def _row(array: pa.Array, was: Type, now: Type) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise _unlike(array.type, ROW)
    had = {member.id: member for member in was.members}
    children = []
    for member in now.members:
        found = had.get(member.id)
        place = -1 if found is None else array.type.get_field_index(found.name)
        if found is None:
            children.append(_absent(member, len(array)))
        elif place < 0:
            raise UnsupportedTableError(
                f"a file lacks the member {found.name}, which its schema has; nothing was rewritten", hint=BY_PAIMON
            )
        else:
            children.append(turned(array.field(place), found.type, member.type))
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(now)), mask=array.is_null())


def _list(array: pa.Array, was: Type, now: Type) -> pa.Array:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise _unlike(array.type, ARRAY)
    array = _from_its_start(array)
    values = turned(array.values, was.within[0], now.within[0])
    return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=arrow_type(now), mask=array.is_null())


def _map(array: pa.Array, was: Type, now: Type) -> pa.Array:
    if not pa.types.is_map(array.type):
        raise _unlike(array.type, MAP)
    array = _from_its_start(array)
    keys = turned(array.keys, was.within[0], now.within[0])
    items = turned(array.items, was.within[1], now.within[1])
    return pa.MapArray.from_arrays(array.offsets, keys, items, type=arrow_type(now), mask=array.is_null())


def _from_its_start(array: pa.Array) -> pa.Array:
    """The same rows in an array that is not a window on a longer one, whose offsets would not begin at its first value."""
    if array.offset == 0 and len(array.offsets) == len(array) + 1 and array.offsets[0].as_py() == 0:
        return array
    return array.take(pa.array(range(len(array)), pa.int64()))


def _plain(array: pa.Array, was: Type, now: pa.DataType) -> pa.Array:
    """Values as a file holds them, in the type that their column has now."""
    kind, said = array.type, arrow_type(was)
    same = kind == said or {kind, said} in ({pa.large_string(), pa.string()}, {pa.large_binary(), pa.binary()})
    if pa.types.is_decimal(kind) and pa.types.is_decimal(said):
        same = kind.scale == said.scale and kind.precision <= said.precision
    if not same:
        raise _unlike(kind, said)
    return array.cast(now)


def _unlike(kind: object, now: object) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"a file has {kind} where the table has {now}, which cannot be turned into it exactly; nothing was rewritten",
        hint=BY_PAIMON,
    )
