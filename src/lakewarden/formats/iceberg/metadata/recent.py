"""States of a table that were current within the grace period.

A reader that opened the table yesterday, or an operator who rolls back, still needs what an expiry
has since dropped. So the snapshots of recently current metadata files protect what they reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from lakewarden.foreign.json_text import integer
from lakewarden.formats.iceberg.metadata.contradictions import check_consistent
from lakewarden.formats.iceberg.metadata.document import check_kinds, manifest_list, parse, snapshots_of
from lakewarden.model.table import LoggedMetadata, ManifestList, ReachedFile, TableState
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Kind

Read = Callable[[str], bytes]


def recent_states(
    state: TableState, document: Mapping[str, Any], read: Read, cutoff: datetime
) -> tuple[list[ManifestList], list[ReachedFile]]:
    """What metadata files that were current since the cut-off reach beyond the current one, as soft roots."""
    recent = [entry for entry in state.history if entry.current_until_ms >= cutoff.timestamp() * 1000]
    lists: dict[str, ManifestList] = {}
    files: dict[str, ReachedFile] = {}
    for earlier in _documents(recent, document, read):
        for snapshot in snapshots_of(earlier):
            if integer(snapshot["snapshot-id"]) not in state.snapshot_ids and snapshot.get("manifest-list"):
                lists[snapshot["manifest-list"]] = manifest_list(snapshot, soft=True)
        for field in ("statistics", "partition-statistics"):
            for entry in earlier.get(field) or []:
                path = str(entry["statistics-path"])
                FileUri.parse(path)
                files[path] = ReachedFile(path, Kind.STATISTICS, soft=True)
    files.update({uri: ReachedFile(uri, Kind.MANIFEST_LIST, soft=True) for uri in lists})
    return list(lists.values()), list(files.values())


def _documents(recent: list[LoggedMetadata], document: Mapping[str, Any], read: Read) -> Iterator[dict[str, Any]]:
    """The recent documents that can hold a snapshot the current one lacks.

    Sequence numbers are handed out one by one, so a table that still has every one of them since the
    oldest recent state has lost nothing, and only that oldest state has to be read to know it.
    """
    if not recent or _never_expired(document):
        return
    oldest = _read(recent[0], read)
    if oldest is not None:
        yield oldest
        known = {s.get("sequence-number") for s in snapshots_of(document)}
        since = range(_last_number(oldest) + 1, _last_number(document) + 1)
        # The last number is whatever the document claims: only as many are looked for as there are snapshots.
        if (
            oldest.get("format-version", 1) > 1
            and len(since) <= len(known)
            and all(number in known for number in since)
        ):
            return
    for entry in recent[1:]:
        if (earlier := _read(entry, read)) is not None:
            yield earlier


def _never_expired(document: Mapping[str, Any]) -> bool:
    """Whether every snapshot that ever was is still there. Those of version 1 have no number: their children tell."""
    snapshots = snapshots_of(document)
    numbers = {s.get("sequence-number") for s in snapshots}
    ids = {s.get("snapshot-id") for s in snapshots}
    orphaned = any(s.get("parent-snapshot-id") not in (None, -1, *ids) for s in snapshots)
    last = _last_number(document)
    statistics = bool(document.get("statistics") or document.get("partition-statistics"))
    every = len(numbers) == last and numbers == set(range(1, last + 1))
    return document.get("format-version", 1) > 1 and every and not orphaned and not statistics


def _last_number(document: Mapping[str, Any]) -> int:
    return integer(document.get("last-sequence-number") or 0)


def _read(entry: LoggedMetadata, read: Read) -> dict[str, Any] | None:
    try:
        document = parse(read(entry.uri), entry.uri)
        check_kinds(document)
        check_consistent(entry.uri, document)
        return document
    except FileNotFoundError:
        # Trimmed by the table's own settings: nobody can roll back to what is gone.
        return None
