"""Manifest lists and manifests as records, read whole or not at all, and written back as they were.

Records keep the fields of the writer that made them: what this version does not know must survive when a record moves
to a new file. Fields that a newer version of the format asks for are added behind the others; readers go by field id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from lakewarden.formats.iceberg.metadata.document import manifest_list
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError
from lakewarden.model.ports import Files

Record = dict[str, Any]

DATA, DELETES = 0, 1
EXISTING, ADDED, DELETED = 0, 1, 2
ROW_IDS = 3  # the version of the format since which rows have ids

# What a file of version 1 lacks, in the version that asks for it: name, field id, type, and the value where it is not said.
_LIST_FIELDS = (
    (2, "content", 517, "int", DATA),
    (2, "sequence_number", 515, "long", 0),
    (2, "min_sequence_number", 516, "long", 0),
    (3, "first_row_id", 520, ["null", "long"], None),
)
_ENTRY_FIELDS = (
    (2, "sequence_number", 3, ["null", "long"], None),
    (2, "file_sequence_number", 4, ["null", "long"], None),
)
_FILE_FIELDS = ((2, "content", 134, "int", 0), (3, "first_row_id", 142, ["null", "long"], None))
# Counts of a manifest, under the names they have had.
_COUNTS = {
    "added_files_count": "added_data_files_count",
    "existing_files_count": "existing_data_files_count",
    "deleted_files_count": "deleted_data_files_count",
}


@dataclass(frozen=True, slots=True)
class AvroFile:
    """The records of one file, with the schema, codec and header of the writer that made it."""

    schema: Record
    codec: str
    header: Mapping[str, str]
    records: tuple[Record, ...]


def read_avro(data: bytes, uri: str, size: int | None = None, rows: int | None = None) -> AvroFile:
    """Every record. Raises IncompleteManifestError unless bytes and rows are as many as was said."""
    import fastavro

    if size is not None and len(data) != size:
        raise IncompleteManifestError(f"{uri} has {len(data)} bytes where its list says {size}")
    try:
        reader = fastavro.reader(BytesIO(data))
        records: tuple[Any, ...] = tuple(reader)
        header: dict[str, Any] = dict(reader.metadata)
        schema = json.loads(header["avro.schema"])
        codec = str(reader.codec)
    except Exception as error:  # whatever a damaged file makes the decoder raise, the table is refused
        raise IncompleteManifestError(f"{uri} cannot be read ({type(error).__name__}: {error})") from error
    if rows is not None and len(records) != rows:
        raise IncompleteManifestError(f"{uri} has {len(records)} entries where its list says {rows}")
    said = {key: str(value) for key, value in header.items() if not key.startswith("avro.")}
    return AvroFile(schema, codec, said, records)


def write_avro(file: AvroFile) -> bytes:
    """The bytes of a file. Raises UnsupportedTableError where the schema asks for what nobody can fill in."""
    import fastavro

    out = BytesIO()
    try:
        fastavro.writer(out, file.schema, file.records, codec=file.codec, metadata=dict(file.header))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise UnsupportedTableError(
            f"a manifest cannot be written in the form that this table uses ({error}); nothing was changed"
        ) from error
    return out.getvalue()


def read_list(files: Files, snapshot: Mapping[str, Any]) -> AvroFile:
    """The manifests of a snapshot. Raises IncompleteManifestError unless they hold as many files as the snapshot says."""
    expected = manifest_list(snapshot)
    found = read_avro(_got(files, expected.uri), expected.uri)
    for content, total in ((DATA, expected.data_files), (DELETES, expected.delete_files)):
        counts = [live_count(row) for row in found.records if row.get("content", DATA) == content]
        listed = sum(count or 0 for count in counts)
        if total is not None and None not in counts and listed != total:
            raise IncompleteManifestError(f"{expected.uri} lists {listed} files where its snapshot says {total}")
    return found


def read_manifest(files: Files, row: Mapping[str, Any]) -> AvroFile:
    """The manifest that a row of a list names. Raises IncompleteManifestError."""
    counts = [count_of(row, name) for name in _COUNTS]
    entries = None if None in counts else sum(count or 0 for count in counts)
    uri = str(row["manifest_path"])
    return read_avro(_got(files, uri), uri, int(row["manifest_length"]), entries)


def count_of(row: Mapping[str, Any], name: str) -> int | None:
    found = row.get(name, row.get(_COUNTS[name]))
    return None if found is None else int(found)


def live_count(row: Mapping[str, Any]) -> int | None:
    """How many live files a manifest has; None where its list does not say."""
    added, existing = count_of(row, "added_files_count"), count_of(row, "existing_files_count")
    return None if added is None or existing is None else added + existing


def set_counts(row: Record, counts: Mapping[str, int]) -> None:
    """The counts, under the names that this list has for them."""
    for name, count in counts.items():
        row[name if name in row or name not in _COUNTS else _COUNTS[name]] = count


def list_of_version(file: AvroFile, version: int) -> AvroFile:
    """The list in the form that this version of the format asks for."""
    schema, added = _widened(file.schema, _LIST_FIELDS, version)
    return AvroFile(schema, file.codec, file.header, tuple({**added, **row} for row in file.records))


def manifest_of_version(file: AvroFile, version: int) -> AvroFile:
    """The manifest in the form that this version of the format asks for."""
    schema, added = _widened(file.schema, _ENTRY_FIELDS, version)
    place = next(field for field in schema["fields"] if field["name"] == "data_file")
    place["type"], more = _widened(place["type"], _FILE_FIELDS, version)
    records = tuple({**added, **row, "data_file": {**more, **row["data_file"]}} for row in file.records)
    header = {"content": "data", **file.header, "format-version": str(version)}
    return AvroFile(schema, file.codec, header if version > 1 else file.header, records)


def _widened(schema: Record, fields: Iterable[Sequence[Any]], version: int) -> tuple[Record, Record]:
    """The record schema with what it lacks in that version, and the values of what was added."""
    wide = deepcopy(schema)
    known = {field["name"] for field in wide["fields"]}
    added: Record = {}
    for since, name, number, kind, value in fields:
        if version >= since and name not in known:
            wide["fields"].append({"name": name, "field-id": number, "type": kind, "default": value})
            added[name] = value
    return wide, added


def _got(files: Files, uri: str) -> bytes:
    try:
        return files.get(uri)
    except (FileNotFoundError, ValueError) as error:
        raise IncompleteManifestError(f"{uri} is missing, and the current snapshot needs it") from error
