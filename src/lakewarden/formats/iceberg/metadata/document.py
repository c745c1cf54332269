"""What one Iceberg metadata.json says, read raw: no catalog's view of it, no library's model of it.

A library that drops a field it does not know would drop the files that field protects.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakewarden.model.errors import (
    EncryptedTableError,
    GcDisabledError,
    LakewardenError,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.table import LoggedMetadata, ManifestList, ReachedFile, Ref, TableState
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Kind

NEWEST_FORMAT = 3
GZIP_MAGIC = b"\x1f\x8b"

# Properties that name a directory the table writes to.
PATH_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)

# Everything the specification knows up to version 3. A field beyond these may name files, so its
# strings are kept as reached files instead of being ignored.
KNOWN_FIELDS = frozenset(
    [
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schema",
        "schemas",
        "current-schema-id",
        "partition-spec",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "properties",
        "current-snapshot-id",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "sort-orders",
        "default-sort-order-id",
        "refs",
        "statistics",
        "partition-statistics",
        "next-row-id",
    ]
)
KNOWN_SNAPSHOT_FIELDS = frozenset(
    [
        "snapshot-id",
        "parent-snapshot-id",
        "sequence-number",
        "timestamp-ms",
        "manifest-list",
        "summary",
        "schema-id",
        "first-row-id",
        "added-rows",
    ]
)


def parse(data: bytes, uri: str) -> dict[str, Any]:
    """The document, unzipped if need be. Raises UnreadableMetadataError."""
    try:
        document = json.loads(gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError) as error:
        raise UnreadableMetadataError(f"{uri} is not readable metadata ({error}); nothing was touched") from error
    if not isinstance(document, dict):
        raise UnreadableMetadataError(f"{uri} is not a metadata document; nothing was touched")
    return document


def table_state(identifier: str, uri: str, document: Mapping[str, Any]) -> TableState:
    """The table at this metadata file; refused (not raised) where it cannot be understood.

    A table that is refused although its files are known still says what it reaches: it may hold files in other
    tables' directories, and those must stay.
    """
    state = unread(identifier, uri)
    try:
        state = _described(state, document)
        check_readable(state, document)
        filled = _filled(state, document)
        try:
            check_permitted(filled)
        except LakewardenError as error:
            return filled.refused(error.refusal())
        return filled
    except LakewardenError as error:
        return state.refused(error.refusal())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{uri} lacks or garbles a field ({type(error).__name__}: {error}); nothing was touched"
        return state.refused(UnreadableMetadataError(reason).refusal())


def unread(identifier: str, uri: str) -> TableState:
    """What little is known of a table by its metadata file's address alone: where it probably lies."""
    location = table_directory(uri)
    return TableState(
        identifier=identifier, format="iceberg", uuid="", metadata_location=uri, location=location,
        roots=(location,) if _is_address(location) else (),
    )  # fmt: skip


def _described(state: TableState, document: Mapping[str, Any]) -> TableState:
    """The table's name, place and properties. Raises ValueError for a directory that is no address."""
    location = str(document.get("location") or state.location)
    properties = {str(k): str(v) for k, v in (document.get("properties") or {}).items()}
    roots = dict.fromkeys([location, *(properties[p] for p in PATH_PROPERTIES if properties.get(p))])
    for root in roots:
        FileUri.parse(root)
    return replace(
        state,
        uuid=str(document.get("table-uuid") or ""),
        location=location,
        roots=tuple(roots),
        format_version=int(document.get("format-version") or 0),
        properties=properties,
    )


def _is_address(text: str) -> bool:
    try:
        FileUri.parse(text)
    except ValueError:
        return False
    return True


def table_directory(metadata_uri: str) -> str:
    """Where a table lies if all that is known of it is its metadata file's address."""
    folder = metadata_uri.rsplit("/", 1)[0]
    return folder.removesuffix("/metadata")


def check_readable(state: TableState, document: Mapping[str, Any]) -> None:
    """Raise for every feature because of which files could be missed."""
    name, version = state.identifier, state.format_version
    if not 1 <= version <= NEWEST_FORMAT:
        raise UnsupportedTableError(
            f"{name} has format version {version}, not 1 to {NEWEST_FORMAT}; nothing was touched"
        )
    encrypted = "encryption-keys" in document or any(key.startswith("encryption.") for key in state.properties)
    if encrypted or any("key-id" in snapshot for snapshot in document.get("snapshots") or []):
        raise EncryptedTableError(f"{name} is encrypted; nothing was touched")
    for snapshot in document.get("snapshots") or []:
        if not snapshot.get("manifest-list"):
            raise UnsupportedTableError(
                f"snapshot {snapshot.get('snapshot-id')} of {name} embeds its manifests, so their lengths are unknown"
            )


def check_permitted(state: TableState) -> None:
    """Raise where the table can be read, yet nothing in its directories may be judged."""
    name = state.identifier
    if not state.uuid:
        raise UnsupportedTableError(f"{name} has no table-uuid, so its files cannot be told from another table's")
    if state.properties.get("gc.enabled", "true").lower() == "false":
        raise GcDisabledError(f"{name} has gc.enabled=false; nothing was touched")
    if provider := state.properties.get("write.location-provider.impl"):
        raise UnsupportedTableError(f"{name} places its files by {provider}, whose directories are unknown")


def snapshots_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(document.get("snapshots") or [])


def manifest_list(snapshot: Mapping[str, Any], *, soft: bool = False) -> ManifestList:
    """A snapshot's list with the totals of its summary, against which the list is proven whole."""
    summary = snapshot.get("summary") or {}
    data, deletes = summary.get("total-data-files"), summary.get("total-delete-files")
    FileUri.parse(str(snapshot["manifest-list"]))
    return ManifestList(
        uri=str(snapshot["manifest-list"]),
        soft=soft,
        data_files=None if data is None else int(data),
        delete_files=None if deletes is None else int(deletes),
        snapshot_id=int(snapshot["snapshot-id"]),
        parent_id=snapshot.get("parent-snapshot-id"),
    )


def _filled(state: TableState, document: Mapping[str, Any]) -> TableState:
    snapshots = snapshots_of(document)
    current = document.get("current-snapshot-id")
    lists = tuple(manifest_list(snapshot) for snapshot in snapshots)
    return replace(
        state,
        current_snapshot_id=None if current in (None, -1) else int(current),
        refs=tuple(
            Ref(name, int(ref["snapshot-id"]), str(ref["type"])) for name, ref in (document.get("refs") or {}).items()
        ),
        files=tuple(_addressed(_named_files(state, document))),
        manifest_lists=lists,
        history=tuple(_history(document)),
        snapshot_ids=frozenset(int(s["snapshot-id"]) for s in snapshots),
        writer_prefixes=tuple(
            sorted({str(j) for s in snapshots if (j := (s.get("summary") or {}).get("flink.job-id"))})
        ),
        updated_ms=int(document["last-updated-ms"]),
    )


def _named_files(state: TableState, document: Mapping[str, Any]) -> Iterator[ReachedFile]:
    yield ReachedFile(state.metadata_location, Kind.METADATA)
    for entry in document.get("metadata-log") or []:
        yield ReachedFile(str(entry["metadata-file"]), Kind.METADATA)
    yield ReachedFile(f"{state.location.rstrip('/')}/metadata/version-hint.text", Kind.METADATA)
    for snapshot in snapshots_of(document):
        yield ReachedFile(str(snapshot["manifest-list"]), Kind.MANIFEST_LIST)
        yield from _strings_beyond(snapshot, KNOWN_SNAPSHOT_FIELDS)
    for field in ("statistics", "partition-statistics"):
        for entry in document.get(field) or []:
            yield ReachedFile(str(entry["statistics-path"]), Kind.STATISTICS)
    yield from _strings_beyond(document, KNOWN_FIELDS)


def _addressed(files: Iterator[ReachedFile]) -> Iterator[ReachedFile]:
    """The files, each under an address that can be compared. Raises ValueError."""
    for file in files:
        FileUri.parse(file.uri)
        yield file


def _strings_beyond(document: Mapping[str, Any], known: frozenset[str]) -> Iterator[ReachedFile]:
    """Every address in fields the specification does not have."""
    stack = [value for key, value in document.items() if key not in known]
    while stack:
        value = stack.pop()
        if isinstance(value, str) and "/" in value and _is_address(value):
            yield ReachedFile(value, Kind.OTHER)
        elif isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def _history(document: Mapping[str, Any]) -> Iterator[LoggedMetadata]:
    """Earlier metadata files, each with the instant at which the next one replaced it."""
    log = document.get("metadata-log") or []
    instants = [*(int(entry["timestamp-ms"]) for entry in log), int(document["last-updated-ms"])]
    for entry, start, end in zip(log, instants, instants[1:], strict=False):
        yield LoggedMetadata(str(entry["metadata-file"]), start, end)
