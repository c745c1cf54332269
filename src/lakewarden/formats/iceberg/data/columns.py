"""A table's columns in Arrow's words, with the ids by which files of every age are read.

Only types that can be written into Parquet exactly as the specification asks are here. Arrow itself leaves a `uuid` without
its annotation and makes a `time` one of UTC: `annotated` says which columns have to be put right in the footer. Nobody
writes a `variant` or a `geometry` yet: tables with these are left to Iceberg's own writers.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewarden.model.errors import UnsupportedTableError

FIELD_ID = b"PARQUET:field_id"
# Columns of row lineage, which files of version 3 store once rows move (specification, "Row Lineage").
ROW_ID, LAST_UPDATED = 2147483540, 2147483539

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
}
ANNOTATED = ("uuid", "time")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")

Json = Mapping[str, Any]


def current_schema(document: Json) -> Json:
    """The schema that readers of the table see now."""
    schemas = document.get("schemas") or [document["schema"]]
    number = document.get("current-schema-id", schemas[0].get("schema-id"))
    return next(schema for schema in schemas if schema.get("schema-id") == number)


def current_sort_order(document: Json) -> Json | None:
    """The order in which the table wants the rows of a file; None if it wants none."""
    number = int(document.get("default-sort-order-id") or 0)
    orders: list[Json] = document.get("sort-orders") or []
    return next((order for order in orders if int(order["order-id"]) == number), None) if number else None


def arrow_schema(schema: Json) -> pa.Schema:
    """The columns of a schema, each with its id. Raises UnsupportedTableError for a type that is not written exactly."""
    return pa.schema([_field(field) for field in schema["fields"]])


def annotated(schema: Json) -> dict[int, str]:
    """The columns, at any depth and by id, whose type Arrow does not write into a file by itself."""
    return {number: kind for number, kind in _primitives(schema) if kind in ANNOTATED}


def _primitives(kind: Json) -> Iterator[tuple[int, str]]:
    """The plain types within a nested one, by the id of the field, element, key or value."""
    members = [(field["id"], field["type"]) for field in kind.get("fields") or ()]
    members += [(kind[f"{name}-id"], kind[name]) for name in ("element", "key", "value") if name in kind]
    for number, found in members:
        if isinstance(found, str):
            yield int(number), found
        else:
            yield from _primitives(found)


def lineage_columns() -> list[pa.Field]:
    """What a file of version 3 stores of its rows beside the table's own columns."""
    return [
        _with_id(pa.field("_row_id", pa.int64()), ROW_ID),
        _with_id(pa.field("_last_updated_sequence_number", pa.int64()), LAST_UPDATED),
    ]


def column_by_id(document: Json, number: int) -> Json | None:
    """A column that the table has or had, the newest word on it first: an equality delete may go by one that was dropped.

    None for a member of a struct: in a file it is not where a column of its own would be.
    """
    schemas = [*(document.get("schemas") or [document["schema"]])]
    schemas.sort(key=lambda schema: int(schema.get("schema-id") or 0), reverse=True)
    for schema in (current_schema(document), *schemas):
        for field in schema["fields"]:
            if int(field["id"]) == number:
                found: Json = field
                return found
    return None


def fields_within(struct: Json) -> Iterator[Json]:
    """The fields of a struct and of the structs in it, but for those in lists and maps."""
    for field in struct["fields"]:
        yield field
        if isinstance(field["type"], Mapping) and field["type"].get("type") == "struct":
            yield from fields_within(field["type"])


def _fields_at_any_depth(kind: Any) -> Iterator[Json]:
    """The fields of all structs within a type, those in lists and maps too."""
    if not isinstance(kind, Mapping):
        return
    for field in kind.get("fields") or ():
        yield field
        yield from _fields_at_any_depth(field["type"])
    for member in ("element", "key", "value"):
        yield from _fields_at_any_depth(kind.get(member))


def initial_defaults(schema: Json) -> dict[int, pa.Scalar]:
    """What columns are in files from before they were added, by id. Raises UnsupportedTableError for what is no plain value."""
    found: dict[int, pa.Scalar] = {}
    for field in _fields_at_any_depth(schema):
        if (value := field.get("initial-default")) is not None:
            if not isinstance(field["type"], str):
                raise _unsupported("with a nested initial default")
            found[int(field["id"])] = _scalar(value, field["type"])
    return found


def _scalar(value: Any, name: str) -> pa.Scalar:
    """A single value as metadata spells it ("JSON single-value serialization")."""
    kind = _primitive(name)
    if name == "uuid":
        return pa.scalar(uuid.UUID(value).bytes, kind)
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(value), kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.scalar(bytes.fromhex(value), kind)
    if pa.types.is_time64(kind):
        return pa.scalar(time.fromisoformat(value), kind)
    return pa.scalar(value).cast(kind) if pa.types.is_temporal(kind) else pa.scalar(value, kind)


def partition_constants(schema: Json, values: Mapping[int, Any]) -> dict[int, pa.Scalar]:
    """Values that a partition has of columns, by id, as they are stored: numbers for times, hex for bytes, text for decimals."""
    kinds = dict(_primitives(schema))
    return {number: _stored(value, _primitive(kinds[number])) for number, value in values.items() if number in kinds}


def _stored(value: Any, kind: pa.DataType) -> pa.Scalar:
    if value is None:
        return pa.scalar(None, kind)
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(value), kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.scalar(bytes.fromhex(value), kind)
    if pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    return pa.scalar(value, kind)


def id_of(field: pa.Field) -> int | None:
    """The id that a column carries; None for one from before the table was Iceberg's."""
    found = (field.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def arrow_field(field: Json) -> pa.Field:
    """One column. Raises UnsupportedTableError."""
    return _field(field)


def _field(field: Json) -> pa.Field:
    return _with_id(pa.field(str(field["name"]), _type(field["type"]), not field.get("required")), int(field["id"]))


def _with_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(number).encode()})


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        return _primitive(kind)
    if kind["type"] == "struct":
        return pa.struct([_field(field) for field in kind["fields"]])
    if kind["type"] == "list":
        element = pa.field("element", _type(kind["element"]), not kind.get("element-required"))
        return pa.list_(_with_id(element, int(kind["element-id"])))
    if kind["type"] == "map":
        key = pa.field("key", _type(kind["key"]), nullable=False)
        value = pa.field("value", _type(kind["value"]), not kind.get("value-required"))
        return pa.map_(_with_id(key, int(kind["key-id"])), _with_id(value, int(kind["value-id"])))
    raise _unsupported(str(kind.get("type")))


def _primitive(kind: str) -> pa.DataType:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := _FIXED.fullmatch(kind):
        return pa.binary(int(found[1]))
    raise _unsupported(kind)


def _unsupported(kind: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"a column of type {kind} cannot be carried exactly into a new file by this version; nothing was rewritten",
        hint="Compact this table with Iceberg's own rewrite_data_files.",
    )
