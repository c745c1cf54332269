"""Columns of files from before the table was Iceberg's, which have no ids: found by the table's name mapping, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakewarden.formats.iceberg.data.columns import FIELD_ID, id_of
from lakewarden.model.errors import UnsupportedTableError

NAME_MAPPING = "schema.name-mapping.default"

Names = Sequence[Mapping[str, Any]]


def name_mapping(properties: Mapping[str, Any]) -> Names | None:
    """The table's mapping from names to ids; None if it has none. Raises UnsupportedTableError if it is garbled."""
    if (text := properties.get(NAME_MAPPING)) is None:
        return None
    try:
        found: Names = json.loads(str(text))
        _by_name(found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnsupportedTableError(
            f"the table's {NAME_MAPPING} cannot be read ({error}); nothing was touched"
        ) from error
    return found


def has_ids(fields: Any) -> bool:
    """Whether any column has an id, at any depth."""
    return any(id_of(found) is not None or has_ids(_members(found.type)) for found in fields)


def with_ids(schema: pa.Schema, names: Names) -> pa.Schema:
    """The file's columns with the ids that their names stand for; one without a name in the mapping is not the table's.

    Raises UnsupportedTableError for a member of a struct that the mapping does not know: it would have to be cut out.
    """
    known = _by_name(names)
    return pa.schema([_mapped(found, known[found.name]) if found.name in known else found for found in schema])


def renamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the ids of this schema, which has the same columns."""
    fields = [schema.field(found.name) for found in batch.schema]
    columns = [
        column if not pa.types.is_nested(found.type) else column.cast(found.type)
        for column, found in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _mapped(found: pa.Field, entry: Mapping[str, Any]) -> pa.Field:
    kind = found.type
    known = _by_name(entry.get("fields") or ())
    if pa.types.is_struct(kind):
        kind = pa.struct([_member(member, member.name, known) for member in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_member(kind.key_field, "key", known), _member(kind.item_field, "value", known))
    elif pa.types.is_list(kind):
        # Older writers have other names for what is in a list.
        kind = pa.list_(_member(kind.value_field, "element", known))
    elif pa.types.is_nested(kind):
        raise UnsupportedTableError(f"a file has a column of type {kind}; nothing was rewritten")
    mapped = found.with_type(kind)
    number = entry.get("field-id")
    return mapped if number is None else mapped.with_metadata({FIELD_ID: str(int(number)).encode()})


def _member(found: pa.Field, name: str, known: Mapping[str, Mapping[str, Any]]) -> pa.Field:
    if name not in known or known[name].get("field-id") is None:
        raise UnsupportedTableError(
            f"a file without ids has the member {name}, which the table's {NAME_MAPPING} does not name; "
            "nothing was rewritten"
        )
    return _mapped(found, known[name])


def _by_name(names: Names) -> dict[str, Mapping[str, Any]]:
    return {str(name): entry for entry in names for name in entry["names"]}


def _members(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_struct(kind):
        return list(kind)
    return [kind.value_field] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else []
