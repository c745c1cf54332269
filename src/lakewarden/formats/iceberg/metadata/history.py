"""The snapshots of an Iceberg table as the archive keeps them, and its metadata log cut to a length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lakewarden.foreign.json_text import integer, integer_or_none, integer_text
from lakewarden.formats.iceberg.metadata.document import GARBLED, snapshots_of
from lakewarden.formats.iceberg.metadata.known import KnownVersions, Version
from lakewarden.formats.iceberg.metadata.refs import refs_of
from lakewarden.model import lineage as keys
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.history import HeldBy, MetadataSize, SnapshotRow, digest_of, summary_of
from lakewarden.model.ports import Files, ReadAvro
from lakewarden.model.table import TableState
from lakewarden.model.uri import canonical

LIST_FIELDS = {"path": "manifest_path", "snapshot": "added_snapshot_id"}
ENTRY_FIELDS = {"path": "data_file.file_path", "snapshot": "snapshot_id"}
# What a snapshot keeps for life, and no other has. The rest may be written anew: an upgrade gives old snapshots a sequence
# number, PyIceberg takes away a parent that expired, and says an operation where a summary has none.
FOR_LIFE = ("snapshot-id", "timestamp-ms", "manifest-list", "manifests")

Trim = Callable[[str, str, int, Mapping[str, str]], "Version | None"]


class IcebergHistorian:
    """History through one catalog. Takes what planning has read already."""

    def __init__(self, known: KnownVersions, trim: Trim) -> None:
        self._known = known
        self._trim = trim

    def rows(self, state: TableState) -> Sequence[SnapshotRow]:
        return snapshot_rows(self._known.loaded(state.metadata_location))

    def size(self, state: TableState) -> MetadataSize:
        return size_of(self._known.loaded(state.metadata_location))

    def read_anew(self, metadata_location: str) -> MetadataSize:
        return size_of(self._known.anew(metadata_location))

    def added_in(self, state: TableState, uri: str, held: Sequence[HeldBy], files: Files, avro: ReadAvro) -> int | None:
        """By the entry of a manifest; one that leaves it out inherits the snapshot that the list says added the manifest."""
        way = held[0]
        if way.manifest is None:
            return way.snapshot_id
        listed = _columns(avro, files.get(canonical(way.list_uri)), LIST_FIELDS)
        added = dict(zip(map(canonical, listed["path"]), listed["snapshot"], strict=True)).get(canonical(way.manifest))
        if canonical(way.manifest) == uri:
            return added
        entries = _columns(avro, files.get(canonical(way.manifest)), ENTRY_FIELDS)
        for path, snapshot in zip(entries["path"], entries["snapshot"], strict=True):
            if canonical(path) == uri:
                return added if snapshot is None else int(snapshot)
        return None

    def trim(self, identifier: str, uuid: str, keep: int, by: Mapping[str, str]) -> MetadataSize | None:
        version = self._trim(identifier, uuid, keep, by)
        return size_of(version) if version is not None else None


def _columns(avro: ReadAvro, blob: bytes, wanted: Mapping[str, str]) -> dict[str, list[Any]]:
    """Two columns of one Avro file. Raises what is wrong with the file."""

    def columns(present: Iterable[str]) -> Mapping[str, str]:
        there = set(present)
        return {name: field for name, field in wanted.items() if field in there}

    rows = avro([blob], columns)
    for error in rows.errors.values():
        raise error
    found: dict[str, list[Any]] = {name: [] for name in wanted}
    for part in rows.parts:
        for name, values in found.items():
            many = part.table.num_rows
            values += part.table[name].to_pylist() if name in part.table.column_names else [None] * many
    return found


def snapshot_rows(version: Version) -> list[SnapshotRow]:
    """Every snapshot of a metadata file: of branches, of tags, and staged ones that nothing points at."""
    try:
        pointing: dict[int, list[str]] = {}
        for name, ref in refs_of(version.document).items():
            pointing.setdefault(int(ref["snapshot-id"]), []).append(f"{ref['type']} {name}")
        return [_row(snapshot, pointing) for snapshot in snapshots_of(version.document)]
    except GARBLED as error:
        raise UnreadableMetadataError(
            f"{version.location} lacks or garbles a field ({type(error).__name__}: {error}); nothing was archived"
        ) from error


def size_of(version: Version) -> MetadataSize:
    return MetadataSize(len(version.raw), len(version.document.get("metadata-log") or []))


def snapshot_digest(snapshot: Mapping[str, Any]) -> str:
    return digest_of({key: snapshot[key] for key in FOR_LIFE if snapshot.get(key) is not None})[1]


def _row(snapshot: Mapping[str, Any], pointing: Mapping[int, Sequence[str]]) -> SnapshotRow:
    number = integer(snapshot["snapshot-id"])
    summary = summary_of(snapshot.get("summary"))
    return SnapshotRow(
        snapshot_id=number,
        parent_id=integer_or_none(snapshot.get("parent-snapshot-id")),
        sequence=integer_or_none(snapshot.get("sequence-number")),
        committed_ms=integer(snapshot["timestamp-ms"]),
        operation=summary.get(keys.OPERATION, ""),
        summary=summary,
        refs=tuple(sorted(pointing.get(number, ()))),
        schema_id=integer_or_none(snapshot.get("schema-id")),
        manifest_list=str(snapshot.get("manifest-list") or ""),
        document=digest_of(snapshot)[0],
        digest=snapshot_digest(snapshot),
        added_rows=_count(summary, "added-records"),
        added_bytes=_count(summary, "added-files-size"),
    )


def _count(summary: Mapping[str, str], key: str) -> int | None:
    """A number of the summary, which leaves out what is zero; None where it has no counts, or garbled ones."""
    if keys.OPERATION not in summary:
        return None
    try:
        return integer_text(summary.get(key, "0"))
    except (TypeError, ValueError):
        return None
