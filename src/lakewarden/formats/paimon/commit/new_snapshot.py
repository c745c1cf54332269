"""A new snapshot and the manifests it stands on, for a commit that takes files out of a table or replaces them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.formats.avro import AvroFile, Record, write_avro
from lakewarden.formats.paimon.metadata.table import PaimonTable, Snapshot, parse_json
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.lineage import made_of
from lakewarden.model.ports import Files

OVERWRITE, COMPACT = "OVERWRITE", "COMPACT"
# The one property that belongs to the table and not to a single commit: where sequence numbers go on.
_CARRIED_PROPERTY = "sequence.generation.max-sequence-number"


@dataclass(frozen=True, slots=True)
class Commit:
    """Who commits, and as what: `user` and `identifier` together are unique, so that a commit is known again."""

    user: str
    identifier: int
    time_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)
    kind: str = OVERWRITE

    def made(self, snapshot: Snapshot) -> bool:
        mine = snapshot.commit_user == self.user and snapshot.commit_identifier == self.identifier
        return mine and snapshot.commit_kind == self.kind


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of one partition that go into one new manifest, all added or all deleted; all have one shape."""

    partition: bytes
    nulls: tuple[bool, ...]
    schema: Record
    codec: str
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a commit changes: entries that go and that come, seen from the manifests that were there.

    `index` replaces the index manifest. `properties` say what this very try of the commit does.
    """

    manifests: AvroFile
    deleted: tuple[Entries, ...]
    index: AvroFile | None = None
    added: tuple[Entries, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> int:
        return sum(len(part.records) for part in self.deleted)

    @property
    def rows(self) -> int:
        """How many rows fewer there are."""
        return _rows(self.deleted) - _rows(self.added)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A snapshot file spelled out, with everything it names already written."""

    number: int
    data: bytes


def prepare(table: PaimonTable, changes: Changes, commit: Commit, files: Files, new_id: Callable[[], str]) -> Prepared:
    """Write the manifests and the lists; the snapshot file itself is only spelled out."""
    latest = table.main.latest
    assert latest is not None
    name = new_id()
    schema, codec = changes.manifests.schema, changes.manifests.codec
    rows = []
    parts = [*((1, part) for part in changes.deleted), *((0, part) for part in changes.added)]
    for number, (kind, part) in enumerate(parts):
        records = tuple({**record, "_KIND": kind} for record in part.records)
        data = write_avro(AvroFile(part.schema, part.codec, records))
        files.put(table.manifest(f"manifest-{name}-{number}"), data)
        rows.append(_manifest_row(f"manifest-{name}-{number}", len(data), part, deleted=kind == 1))
    delta = write_avro(AvroFile(schema, codec, tuple(rows)))
    base = write_avro(AvroFile(schema, codec, changes.manifests.records))
    files.put(table.manifest(f"manifest-list-{name}-0"), base)
    files.put(table.manifest(f"manifest-list-{name}-1"), delta)
    index = latest.index_manifest
    if changes.index is not None:
        index = f"index-manifest-{name}-0" if changes.index.records else None
        if index is not None:
            content = write_avro(AvroFile(changes.index.schema, changes.index.codec, changes.index.records))
            files.put(table.manifest(index), content)
    before = latest.document
    taken = made_of([latest.id], _rows(changes.deleted), _sizes(changes.deleted)) if commit.properties else {}
    properties = {**_carried(before), **commit.properties, **taken, **changes.properties}
    document: dict[str, Any] = {
        "version": 3,
        "uuid": new_id(),
        "id": latest.id + 1,
        "schemaId": table.main.schema.id,
        "baseManifestList": f"manifest-list-{name}-0",
        "baseManifestListSize": len(base),
        "deltaManifestList": f"manifest-list-{name}-1",
        "deltaManifestListSize": len(delta),
        "indexManifest": index,
        "commitUser": commit.user,
        "commitIdentifier": commit.identifier,
        "commitKind": commit.kind,
        # Time travel searches by time: it must never run backwards from one snapshot to the next.
        "timeMillis": max(commit.time_ms, latest.time_ms),
        "totalRecordCount": (before.get("totalRecordCount") or 0) - changes.rows,
        "deltaRecordCount": -changes.rows,
        "watermark": before.get("watermark"),
        "statistics": _inherited_statistics(table, latest, files),
        "properties": properties or None,
        "nextRowId": before.get("nextRowId"),
    }
    said = {key: value for key, value in document.items() if value is not None}
    return Prepared(latest.id + 1, json.dumps(said, indent=2).encode())


def _sizes(parts: Iterable[Entries]) -> int:
    return sum(record["_FILE"]["_FILE_SIZE"] for part in parts for record in part.records)


def _rows(parts: Iterable[Entries]) -> int:
    return sum(record["_FILE"]["_ROW_COUNT"] for part in parts for record in part.records)


def _manifest_row(name: str, size: int, part: Entries, *, deleted: bool) -> Record:
    """What a manifest list says of a manifest with files of one partition: least and greatest are the same."""
    entries = part.records
    buckets = [entry["_BUCKET"] for entry in entries]
    totals = {entry["_TOTAL_BUCKETS"] for entry in entries}
    levels = [entry["_FILE"]["_LEVEL"] for entry in entries]
    firsts = [entry["_FILE"].get("_FIRST_ROW_ID") for entry in entries]
    tracked = all(first is not None for first in firsts)
    ends = [f + e["_FILE"]["_ROW_COUNT"] - 1 for f, e in zip(firsts, entries, strict=True)] if tracked else []
    total = totals.pop() if len(totals) == 1 else None
    return {
        "_VERSION": 2,
        "_FILE_NAME": name,
        "_FILE_SIZE": size,
        "_NUM_ADDED_FILES": 0 if deleted else len(entries),
        "_NUM_DELETED_FILES": len(entries) if deleted else 0,
        "_PARTITION_STATS": {
            "_MIN_VALUES": part.partition,
            "_MAX_VALUES": part.partition,
            "_NULL_COUNTS": [len(entries) if null else 0 for null in part.nulls],
        },
        "_SCHEMA_ID": max(entry["_FILE"]["_SCHEMA_ID"] for entry in entries),
        "_MIN_BUCKET": min(buckets),
        "_MAX_BUCKET": max(buckets),
        "_MIN_LEVEL": min(levels),
        "_MAX_LEVEL": max(levels),
        "_MIN_ROW_ID": min(firsts) if tracked else None,
        "_MAX_ROW_ID": max(ends) if tracked else None,
        "_TOTAL_BUCKETS": total if total is not None and total > 0 else None,
        "_EXTRA_FILES": None,
    }


def _carried(before: Mapping[str, Any]) -> dict[str, str]:
    value = (before.get("properties") or {}).get(_CARRIED_PROPERTY)
    return {} if value is None else {_CARRIED_PROPERTY: value}


def _inherited_statistics(table: PaimonTable, latest: Snapshot, files: Files) -> str | None:
    """The statistics of the snapshot before, if they are about the same columns; they are only advice to a query planner."""
    if latest.statistics is None:
        return None
    uri = f"{table.location}statistics/{latest.statistics}"
    try:
        said = parse_json(files.get(uri), uri).get("schemaId")
    except (FileNotFoundError, UnreadableMetadataError):
        return None
    return latest.statistics if said == table.main.schema.id else None
