"""Rows of a file as the table's columns are now: found by id, whatever they were called when the file was written.

A column that a file lacks has its initial default, or is null (specification, "Column Projection"). A null list stays null
and an empty one empty, at every depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.model.errors import UnsupportedTableError

# What a column may have been before it was widened.
_WIDER = {
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.timestamp("ms"), pa.timestamp("us")),
    (pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")),
}


@dataclass(frozen=True)
class Absent:
    """What columns are that a file lacks: what the partition says of them (`constants`), else their initial default, else null."""

    defaults: Mapping[int, pa.Scalar] = field(default_factory=dict)
    constants: Mapping[int, pa.Scalar] = field(default_factory=dict)

    def column(self, wanted: pa.Field, rows: int) -> pa.Array:
        """Raises UnsupportedTableError where nobody can say."""
        number = _number(wanted)
        found = self.constants.get(number, self.defaults.get(number))
        if (found is None or not found.is_valid) and not wanted.nullable:
            raise UnsupportedTableError(f"a file lacks the column {wanted.name}; nothing was rewritten")
        return pa.nulls(rows, wanted.type) if found is None else pa.repeat(found, rows)


def projected(batch: pa.RecordBatch, fields: Sequence[pa.Field], absent: Absent) -> pa.RecordBatch:
    """The rows of a batch under these fields. Raises UnsupportedTableError for what cannot be turned into them exactly."""
    found = {number: place for place, had in enumerate(batch.schema) if (number := id_of(had)) is not None}
    columns = []
    for wanted in fields:
        place = found.get(_number(wanted))
        if place is None:
            columns.append(absent.column(wanted, batch.num_rows))
        else:
            columns.append(_turned(batch.column(place), wanted, absent))
    schema = pa.schema(list(fields))
    return pa.RecordBatch.from_arrays(columns, schema=schema) if fields else pa.RecordBatch.from_pylist([], schema)


def _turned(array: pa.Array, now: pa.Field, absent: Absent) -> pa.Array:
    """One column in the type that it has now."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array.type, pa.BaseExtensionType):
        # PyIceberg's uuids, which are the same bytes.
        array = array.storage
    kind = now.type
    if pa.types.is_struct(kind):
        return _struct(array, kind, absent)
    if pa.types.is_map(kind):
        return _map(array, kind, absent)
    if pa.types.is_list(kind):
        return _list(array, kind, absent)
    return _primitive(array, kind)


def _struct(array: pa.Array, kind: pa.StructType, absent: Absent) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise _unlike(array.type, kind)
    members = {id_of(array.type.field(place)): place for place in range(array.type.num_fields)}
    if None in members:
        raise UnsupportedTableError(
            f"a struct in a file has the member {array.type.field(members[None]).name} without an id; nothing was rewritten"
        )
    children = []
    for member in kind:
        place = members.get(_number(member))
        if place is None:
            children.append(absent.column(member, len(array)))
        else:
            children.append(_turned(array.field(place), member, absent))
    if not children:
        return pa.array([None if gone else {} for gone in array.is_null().to_pylist()], kind)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _list(array: pa.Array, kind: pa.ListType, absent: Absent) -> pa.Array:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise _unlike(array.type, kind)
    array = _from_its_start(array)
    _same_id(array.type.value_field, kind.value_field)
    values = _turned(array.values, kind.value_field, absent)
    return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=kind, mask=array.is_null())


def _map(array: pa.Array, kind: pa.MapType, absent: Absent) -> pa.Array:
    if not pa.types.is_map(array.type):
        raise _unlike(array.type, kind)
    array = _from_its_start(array)
    _same_id(array.type.key_field, kind.key_field)
    _same_id(array.type.item_field, kind.item_field)
    keys = _turned(array.keys, kind.key_field, absent)
    items = _turned(array.items, kind.item_field, absent)
    return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=array.is_null())


def _from_its_start(array: pa.Array) -> pa.Array:
    """The same rows in an array that is not a window on a longer one, whose offsets would not begin at its first value."""
    if array.offset == 0 and len(array.offsets) == len(array) + 1 and array.offsets[0].as_py() == 0:
        return array
    return array.take(pa.array(range(len(array)), pa.int64()))


def _primitive(array: pa.Array, now: pa.DataType) -> pa.Array:
    kind = array.type
    if kind == now:
        return array
    if (pa.types.is_large_string(kind), now) == (True, pa.string()) or (kind, now) in _WIDER:
        return array.cast(now)
    if pa.types.is_large_binary(kind) and now == pa.binary():
        return array.cast(now)
    decimals = pa.types.is_decimal(kind) and pa.types.is_decimal(now)
    if decimals and kind.scale == now.scale and kind.precision <= now.precision:
        return array.cast(now)
    raise _unlike(kind, now)


def _same_id(was: pa.Field, now: pa.Field) -> None:
    """A list's element and a map's key and value keep their ids for as long as their column lives."""
    if id_of(was) != id_of(now):
        raise UnsupportedTableError(
            f"the members of a list or map have the id {id_of(was)} in a file and {id_of(now)} in the table; "
            "nothing was rewritten"
        )


def _number(column: pa.Field) -> int:
    number = id_of(column)
    assert number is not None
    return number


def _unlike(kind: pa.DataType, now: pa.DataType) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"a file has {kind} where the table has {now}, which cannot be turned into it exactly; nothing was rewritten",
        hint="Compact this table with Iceberg's own rewrite_data_files.",
    )
