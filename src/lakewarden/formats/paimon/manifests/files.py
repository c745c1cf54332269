"""Manifest lists, manifests and index manifests as records."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.formats.avro import AvroFile, Record, read_avro
from lakewarden.formats.paimon.metadata.table import PaimonTable, Snapshot
from lakewarden.formats.recent_files import RecentFiles
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError
from lakewarden.model.ports import Files

_AT_ONCE = 32  # manifests in memory together

Identity = tuple[object, ...]


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


def identity_of(record: Record) -> Identity:
    """What makes two entries speak of one file: the same name at another level is another entry."""
    file = record["_FILE"]
    return (
        record["_PARTITION"],
        record["_BUCKET"],
        file["_LEVEL"],
        file["_FILE_NAME"],
        tuple(file.get("_EXTRA_FILES") or ()),
        file.get("_EMBEDDED_FILE_INDEX"),
        file.get("_EXTERNAL_PATH"),
    )


def manifests_of(table: PaimonTable, snapshot: Snapshot, files: Files) -> AvroFile | None:
    """Everything the snapshot's two lists name, in their order."""
    lists = [
        read_needed(files, table.manifest(name), size)
        for name, size in ((snapshot.base, snapshot.base_size), (snapshot.delta, snapshot.delta_size))
        if name is not None
    ]
    return (lists[0] if len(lists) == 1 else merged(*lists)) if lists else None


def opened(
    table: PaimonTable, manifests: AvroFile, files: Files, recent: RecentFiles | None = None
) -> Iterator[tuple[str, AvroFile]]:
    """Every manifest of a list, a few at a time; those that were read a moment ago are not fetched again."""
    recent = recent or RecentFiles(0)
    rows = manifests.records
    for start in range(0, len(rows), _AT_ONCE):
        # With what the list says of it: a list that says otherwise is compared with the file itself. One that a list names
        # twice is yielded twice, so that whoever counts entries notices.
        some = [
            (table.manifest(row["_FILE_NAME"]), row["_FILE_SIZE"], _entries(row))
            for row in rows[start : start + _AT_ONCE]
        ]
        known = {key: found for key in some if (found := recent.get(key)) is not None}
        wanted = [key for key in dict.fromkeys(some) if key not in known]
        for key, data in zip(wanted, files.get_many([uri for uri, _, _ in wanted]), strict=True):
            if isinstance(data, FileNotFoundError):
                raise missing(key[0]) from data
            if isinstance(data, Exception):
                raise data
            known[key] = read_avro(data, *key)
            recent.keep(key, known[key])
        yield from ((key[0], known[key]) for key in some)


def _entries(row: Record) -> int:
    return int(row["_NUM_ADDED_FILES"] + row["_NUM_DELETED_FILES"])
