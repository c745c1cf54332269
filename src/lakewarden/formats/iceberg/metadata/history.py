"""The snapshots of an Iceberg table as the archive keeps them, and its metadata log cut to a length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakewarden.foreign.json_text import integer, integer_or_none, integer_text
from lakewarden.formats.iceberg.metadata.document import GARBLED, snapshots_of
from lakewarden.formats.iceberg.metadata.known import KnownVersions, Version
from lakewarden.formats.iceberg.metadata.refs import refs_of
from lakewarden.model import lineage as keys
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.history import MetadataSize, SnapshotRow, digest_of, summary_of
from lakewarden.model.table import TableState

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

    def trim(self, identifier: str, uuid: str, keep: int, by: Mapping[str, str]) -> MetadataSize | None:
        version = self._trim(identifier, uuid, keep, by)
        return size_of(version) if version is not None else None


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
    return digest_of(snapshot)[1]


def _row(snapshot: Mapping[str, Any], pointing: Mapping[int, Sequence[str]]) -> SnapshotRow:
    number = integer(snapshot["snapshot-id"])
    text, digest = digest_of(snapshot)
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
        document=text,
        digest=digest,
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
