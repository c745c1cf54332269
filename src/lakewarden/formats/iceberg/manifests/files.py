"""Manifest lists and manifests as records.

Fields that a newer version of the format asks for are added behind the others; readers go by field id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakewarden.formats.avro import AvroFile, Record, read_avro
from lakewarden.formats.iceberg.metadata.document import manifest_list
from lakewarden.model.errors import IncompleteManifestError, UnprovenListError
from lakewarden.model.ports import Files

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


def read_list(files: Files, snapshot: Mapping[str, Any]) -> AvroFile:
    """The manifests of a snapshot. Raises IncompleteManifestError unless they hold as many files as the snapshot says,
    UnprovenListError where it does not say and the list may have lost its end.
    """
    expected = manifest_list(snapshot)
    found = read_avro(_got(files, expected.uri), expected.uri)
    told = True
    for content, total in ((DATA, expected.data_files), (DELETES, expected.delete_files)):
        counts = [live_count(row) for row in found.records if row.get("content", DATA) == content]
        listed = sum(count or 0 for count in counts)
        if total is not None and None not in counts and listed != total:
            raise IncompleteManifestError(f"{expected.uri} lists {listed} files where its snapshot says {total}")
        told = told and total is not None and None not in counts
    if found.doubt and not told:
        raise UnprovenListError(
            f"{expected.uri} may have lost its end, and its snapshot does not say how much it should name: {found.doubt}; "
            "nothing was changed"
        )
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
    return AvroFile(schema, file.codec, tuple({**added, **row} for row in file.records), file.header)


def manifest_of_version(file: AvroFile, version: int) -> AvroFile:
    """The manifest in the form that this version of the format asks for."""
    schema, added = _widened(file.schema, _ENTRY_FIELDS, version)
    place = next(n for n, field in enumerate(schema["fields"]) if field["name"] == "data_file")
    of_file, more = _widened(schema["fields"][place]["type"], _FILE_FIELDS, version)
    schema["fields"][place] = {**schema["fields"][place], "type": of_file}
    header = {"content": "data", **file.header, "format-version": str(version)} if version > 1 else file.header
    if not added and not more:
        return replace(file, header=header)
    records = tuple({**added, **row, "data_file": {**more, **row["data_file"]}} for row in file.records)
    return AvroFile(schema, file.codec, records, header)


def _widened(schema: Record, fields: Iterable[Sequence[Any]], version: int) -> tuple[Record, Record]:
    """The record schema with what it lacks in that version, and the values of what was added."""
    # The fields themselves are never changed, only their list: records share them.
    wide = {**schema, "fields": list(schema["fields"])}
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
