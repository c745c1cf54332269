"""What one Iceberg metadata.json says, read raw: no catalog's view of it, no library's model of it.

A library that drops a field it does not know would drop the files that field protects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakewarden.foreign.json_text import instant_ms, integer, integer_or_none, integer_text, read_object
from lakewarden.formats.iceberg.metadata.contradictions import check_consistent
from lakewarden.model.errors import (
    EncryptedTableError,
    GcDisabledError,
    LakewardenError,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.table import Commit, LoggedMetadata, ManifestList, ReachedFile, Ref, TableState
from lakewarden.model.uri import FileUri, is_address
from lakewarden.model.verdict import Kind

NEWEST_FORMAT = 3
GC_ENABLED = "gc.enabled"
LISTS = ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics")
OBJECTS = ("properties", "refs")
# What a field of a wrong kind makes the readers below raise; the table is refused for it.
GARBLED = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)

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
    """The document, unzipped if need be. Raises UnreadableMetadataError or BoundsError."""
    return read_object(data, uri)


def table_state(identifier: str, uri: str, document: Mapping[str, Any]) -> TableState:
    """The table at this metadata file; refused (not raised) where it cannot be understood.

    A table that is refused although its files are known still says what it reaches: it may hold files in other
    tables' directories, and those must stay.
    """
    state = _described(unread(identifier, uri), document)
    try:
        check_places(uri, document)
        check_kinds(document)
        state = replace(state, format_version=integer(document.get("format-version") or 0))
        check_readable(state, document)
        filled = _filled(state, document)
        try:
            check_consistent(uri, document)
            check_permitted(filled, document)
        except LakewardenError as error:
            return filled.refused(error.refusal())
        return filled
    except LakewardenError as error:
        return state.refused(error.refusal())
    except GARBLED as error:
        reason = f"{uri} lacks or garbles a field ({type(error).__name__}: {error}); nothing was touched"
        return state.refused(UnreadableMetadataError(reason).refusal())


def unread(identifier: str, uri: str) -> TableState:
    """What little is known of a table by its metadata file's address alone: where it probably lies."""
    location = table_directory(uri)
    return TableState(
        identifier=identifier, format="iceberg", uuid="", metadata_location=uri, location=location,
        roots=(location,) if is_address(location) else (),
    )  # fmt: skip


def _described(state: TableState, document: Mapping[str, Any]) -> TableState:
    """The table's name, places and properties, as far as they can be understood: a refused table has places too."""
    said = document.get("location")
    location = said if isinstance(said, str) and is_address(said) else state.location
    found = document.get("properties")
    properties = {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}
    places = [location, *(properties[p] for p in PATH_PROPERTIES if properties.get(p))]
    return replace(
        state,
        uuid=str(document.get("table-uuid") or ""),
        location=location,
        roots=tuple(dict.fromkeys(place for place in places if is_address(place))),
        properties=properties,
    )


def check_places(uri: str, document: Mapping[str, Any]) -> None:
    """Raise where the document does not say, or says in no address, which directories the table writes to."""
    properties = document.get("properties") or {}
    places = {"location": document["location"], **{p: properties[p] for p in PATH_PROPERTIES if p in properties}}
    for name, place in places.items():
        if not isinstance(place, str) or not is_address(place):
            raise UnreadableMetadataError(f"{uri} has {name} {place!r}, which is no address; nothing was touched")


def check_kinds(document: Mapping[str, Any]) -> None:
    """Raise where a list or an object is something else: a number in place of the snapshots is not "no snapshots"."""
    for names, kind in ((LISTS, list), (OBJECTS, Mapping)):
        for name in names:
            if document.get(name) is not None and not isinstance(document[name], kind):
                raise TypeError(f"{name} is {type(document[name]).__name__}")


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
    for snapshot in document.get("snapshots") or []:
        if not snapshot.get("manifest-list"):
            raise UnsupportedTableError(
                f"snapshot {snapshot.get('snapshot-id')} of {name} embeds its manifests, so their lengths are unknown"
            )


def check_permitted(state: TableState, document: Mapping[str, Any]) -> None:
    """Raise where the table can be read, yet nothing in its directories may be judged."""
    name = state.identifier
    # What an encrypted table names may be readable all the same, and is needed then.
    encrypted = "encryption-keys" in document or any(key.startswith("encryption.") for key in state.properties)
    if encrypted or any("key-id" in snapshot for snapshot in document.get("snapshots") or []):
        raise EncryptedTableError(f"{name} is encrypted; nothing was touched")
    if not state.uuid:
        raise UnsupportedTableError(f"{name} has no table-uuid, so its files cannot be told from another table's")
    # Whatever else an owner wrote there (`0`, `no`, ` false`, nothing at all) is no leave to clean.
    allowed = (document.get("properties") or {}).get(GC_ENABLED, "true")
    if isinstance(allowed, str) and allowed.lower() == "false":
        raise GcDisabledError(f"{name} has gc.enabled=false; nothing was touched")
    if not isinstance(allowed, str) or allowed.lower() != "true":
        raise GcDisabledError(
            f"{name} has gc.enabled={allowed!r}, which is not true; nothing was touched",
            hint="Only the word true allows cleaning: ask the owner, then set gc.enabled to it or remove the property.",
        )
    if provider := state.properties.get("write.location-provider.impl"):
        raise UnsupportedTableError(f"{name} places its files by {provider}, whose directories are unknown")


def snapshots_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(document.get("snapshots") or [])


def manifest_list(snapshot: Mapping[str, Any], *, soft: bool = False) -> ManifestList:
    """A snapshot's list with the totals of its summary, against which the list is proven whole."""
    summary = snapshot.get("summary") or {}
    data, deletes = summary.get("total-data-files"), summary.get("total-delete-files")
    size = summary.get("total-files-size")
    FileUri.parse(str(snapshot["manifest-list"]))
    return ManifestList(
        uri=str(snapshot["manifest-list"]),
        soft=soft,
        data_files=None if data is None else integer_text(data),
        delete_files=None if deletes is None else integer_text(deletes),
        snapshot_id=integer(snapshot["snapshot-id"]),
        parent_id=integer_or_none(snapshot.get("parent-snapshot-id")),
        files_bytes=None if size is None else integer_text(size),
    )


def _filled(state: TableState, document: Mapping[str, Any]) -> TableState:
    snapshots = snapshots_of(document)
    current = integer_or_none(document.get("current-snapshot-id"))
    for snapshot in snapshots:
        instant_ms(snapshot["timestamp-ms"])
    lists = tuple(manifest_list(snapshot) for snapshot in snapshots)
    return replace(
        state,
        current_snapshot_id=None if current == -1 else current,
        refs=tuple(
            Ref(name, integer(ref["snapshot-id"]), str(ref["type"]))
            for name, ref in (document.get("refs") or {}).items()
        ),
        files=tuple(_addressed(_named_files(state, document))),
        manifest_lists=lists,
        history=tuple(_history(document)),
        snapshot_ids=frozenset(integer(s["snapshot-id"]) for s in snapshots),
        writer_prefixes=tuple(
            sorted({str(j) for s in snapshots if (j := (s.get("summary") or {}).get("flink.job-id"))})
        ),
        updated_ms=instant_ms(document["last-updated-ms"]),
        commits=tuple(_commit(snapshot) for snapshot in snapshots),
    )


def _commit(snapshot: Mapping[str, Any]) -> Commit:
    """What a snapshot says it added. A rewrite adds nothing; a summary leaves out what is zero."""
    summary = snapshot.get("summary")
    added: int | None = None
    if isinstance(summary, Mapping):
        try:
            added = 0 if summary.get("operation") == "replace" else integer_text(summary.get("added-files-size", "0"))
        except (TypeError, ValueError):
            added = None  # a number for people: a garbled one is unknown, and no reason to leave the table alone
    return Commit(instant_ms(snapshot["timestamp-ms"]), added, integer(snapshot["snapshot-id"]))


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
        if isinstance(value, str) and "/" in value and is_address(value):
            yield ReachedFile(value, Kind.OTHER)
        elif isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def _history(document: Mapping[str, Any]) -> Iterator[LoggedMetadata]:
    """Earlier metadata files, each with the instant at which the next one replaced it."""
    log = document.get("metadata-log") or []
    instants = [*(instant_ms(entry["timestamp-ms"]) for entry in log), instant_ms(document["last-updated-ms"])]
    for entry, start, end in zip(log, instants, instants[1:], strict=False):
        yield LoggedMetadata(str(entry["metadata-file"]), start, end)
