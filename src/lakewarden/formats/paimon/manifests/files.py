"""Manifest lists, manifests and index manifests as records."""

from __future__ import annotations

from lakewarden.formats.avro import AvroFile, read_avro
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError
from lakewarden.model.ports import Files


def read_needed(files: Files, uri: str, size: int | None = None) -> AvroFile:
    """A file that the latest snapshot needs. Raises IncompleteManifestError, also if it is missing."""
    try:
        return read_avro(files.get(uri), uri, size)
    except FileNotFoundError as error:
        raise missing(uri) from error


def missing(uri: str) -> IncompleteManifestError:
    return IncompleteManifestError(f"{uri} is missing, and the latest snapshot needs it")


def merged(first: AvroFile, second: AvroFile) -> AvroFile:
    """The records of both under one schema that has the fields of both; what one side lacks is null there."""
    if first.shape == second.shape:
        return AvroFile(first.schema, first.codec, first.records + second.records)
    wide, other = sorted((first, second), key=lambda file: len(file.schema["fields"]), reverse=True)
    known = {field["name"] for field in wide.schema["fields"]}
    extra = [field for field in other.schema["fields"] if field["name"] not in known]
    fields = [*wide.schema["fields"], *extra]
    shared = {field["name"] for field in other.schema["fields"]} & known
    for field in fields:
        if field["name"] not in shared and not (isinstance(field["type"], list) and "null" in field["type"]):
            raise UnsupportedTableError(f"the manifest lists of this table disagree about the field {field['name']}")
    return AvroFile({**wide.schema, "fields": fields}, wide.codec, first.records + second.records)
