"""A new snapshot and the manifests it stands on, for a commit that takes files out of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.formats.avro import AvroFile, Record, write_avro
from lakewarden.formats.paimon.metadata.table import PaimonTable, Snapshot, parse_json
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.ports import Files

KIND = "OVERWRITE"
# The one property that belongs to the table and not to a single commit: where sequence numbers go on.
_CARRIED_PROPERTY = "sequence.generation.max-sequence-number"


@dataclass(frozen=True, slots=True)
class Commit:
    """Who commits, and as what: `user` and `identifier` together are unique, so that a commit is known again."""

    user: str
    identifier: int
    time_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)

    def made(self, snapshot: Snapshot) -> bool:
        mine = snapshot.commit_user == self.user and snapshot.commit_identifier == self.identifier
        return mine and snapshot.commit_kind == KIND


@dataclass(frozen=True, slots=True)
class DeletedFiles:
    """Live entries of one partition that one manifest will mark as deleted; all have one shape."""

    partition: bytes
    nulls: tuple[bool, ...]
    schema: Record
    codec: str
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a commit changes: entries that go, seen from the manifests that were there. `index` replaces the index manifest."""

    manifests: AvroFile
    deleted: tuple[DeletedFiles, ...]
    index: AvroFile | None = None

    @property
    def files(self) -> int:
        return sum(len(part.records) for part in self.deleted)

    @property
    def rows(self) -> int:
        return sum(record["_FILE"]["_ROW_COUNT"] for part in self.deleted for record in part.records)


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
    for number, part in enumerate(changes.deleted):
        gone = tuple({**record, "_KIND": 1} for record in part.records)
        data = write_avro(AvroFile(part.schema, part.codec, gone))
        files.put(table.manifest(f"manifest-{name}-{number}"), data)
        rows.append(_manifest_row(f"manifest-{name}-{number}", len(data), part))
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
    properties = {**_carried(before), **commit.properties}
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
        "commitKind": KIND,
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


def _manifest_row(name: str, size: int, part: DeletedFiles) -> Record:
    """What a manifest list says of a manifest that deletes files of one partition: least and greatest are the same."""
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
        "_NUM_ADDED_FILES": 0,
        "_NUM_DELETED_FILES": len(entries),
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
