"""Manifest lists, manifests and index manifests as records, read whole or not at all, and written back as they were.

Records keep the fields of the writer that made them: a newer writer's field that this version does not know (the extra
files of a manifest, say) must survive when the record moves to a new file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from lakewarden.model.avro_frames import SYNC_BYTES, header, number
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AvroRecords:
    """The records of one file, with the schema and codec that its writer used."""

    schema: Record
    codec: str
    records: tuple[Record, ...]

    @property
    def shape(self) -> str:
        """The schema as text, to tell files of one shape from others."""
        return json.dumps(self.schema, sort_keys=True)


def read_records(data: bytes, uri: str, size: int | None = None, rows: int | None = None) -> AvroRecords:
    """Every record. Raises IncompleteManifestError unless size, frames and number of rows agree with what was said."""
    import fastavro

    if size is not None and len(data) != size:
        raise IncompleteManifestError(f"{uri} has {len(data)} bytes and should have {size}")
    try:
        framed = _framed_rows(data)
        reader = fastavro.reader(BytesIO(data))
        records: tuple[Any, ...] = tuple(reader)
        schema: Any = reader.writer_schema
        codec = str(reader.codec)
    except Exception as error:  # whatever a damaged file makes the decoder raise, the table is refused
        raise IncompleteManifestError(f"{uri} cannot be read ({type(error).__name__}: {error})") from error
    if len(records) != framed or (rows is not None and len(records) != rows):
        raise IncompleteManifestError(
            f"{uri} has {len(records)} rows and should have {framed if rows is None else rows}"
        )
    return AvroRecords(schema, codec, records)


def write_records(schema: Record, codec: str, records: Iterable[Record]) -> bytes:
    """The bytes of a file. Raises UnsupportedTableError where the schema asks for a field that nobody can fill in."""
    import fastavro

    out = BytesIO()
    try:
        fastavro.writer(out, json.loads(json.dumps(schema)), list(records), codec=codec)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnsupportedTableError(
            f"a manifest cannot be written in the form that this table uses ({error})"
        ) from error
    return out.getvalue()


def merged(first: AvroRecords, second: AvroRecords) -> AvroRecords:
    """The records of both under one schema that has the fields of both; what one side lacks is null there."""
    if first.shape == second.shape:
        return AvroRecords(first.schema, first.codec, first.records + second.records)
    wide, other = sorted((first, second), key=lambda file: len(file.schema["fields"]), reverse=True)
    known = {field["name"] for field in wide.schema["fields"]}
    extra = [field for field in other.schema["fields"] if field["name"] not in known]
    fields = [*wide.schema["fields"], *extra]
    shared = {field["name"] for field in other.schema["fields"]} & known
    for field in fields:
        if field["name"] not in shared and not (isinstance(field["type"], list) and "null" in field["type"]):
            raise UnsupportedTableError(f"the manifest lists of this table disagree about the field {field['name']}")
    return AvroRecords({**wide.schema, "fields": fields}, wide.codec, first.records + second.records)


def _framed_rows(data: bytes) -> int:
    """The number of rows that the container's own frames add up to. Raises ValueError for a file cut anywhere in a block."""
    _, at = header(data)
    sync = data[at : at + SYNC_BYTES]
    at += SYNC_BYTES
    rows = 0
    while at < len(data):
        count, at = number(data, at)
        length, at = number(data, at)
        at += length
        if count < 0 or length < 0 or data[at : at + SYNC_BYTES] != sync:
            raise ValueError("a block is cut or damaged")
        at += SYNC_BYTES
        rows += count
    if at != len(data) or len(sync) != SYNC_BYTES:
        raise ValueError("the file is cut")
    return rows
