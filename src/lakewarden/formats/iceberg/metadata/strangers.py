"""Metadata files in a table's directory that its current metadata does not name: whose are they?

They may be old versions that the log has dropped, leavings of a failed commit, another catalog's commits
to the same table, or another table's metadata. Only the first two may ever go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from lakewarden.foreign.json_text import instant_ms, integer
from lakewarden.foreign.unpack import GZIP_MAGIC
from lakewarden.formats.iceberg.metadata.document import (
    GARBLED,
    NEWEST_FORMAT,
    check_kinds,
    manifest_list,
    parse,
    snapshots_of,
)
from lakewarden.model.errors import BoundsError, LakewardenError, UnreadableMetadataError
from lakewarden.model.table import ManifestList, TableState
from lakewarden.model.uri import canonical

HEAD_BYTES = 64 << 10
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"\\\x00-\x1f]{1,200})"')
_UPDATED = re.compile(rb'"last-updated-ms"\s*:\s*(\d{1,18})\b')


class Standing(StrEnum):
    """What an unknown metadata file is."""

    ANCESTOR = "ancestor"  # an old version of ours, dropped from the log
    LEFTOVER = "leftover"  # a commit that failed; every snapshot in it is known to us
    RIVAL = "rival"  # holds a snapshot that our history never had: a lost commit, or another catalog's
    FORK = "fork"  # continues such a rival: only another catalog does that
    FOREIGN = "foreign"  # another table's
    NAMELESS = "nameless"  # no metadata at all: it names no table
    UNREADABLE = "unreadable"  # the store does not give it out, or it is ours and makes no sense: it may need anything


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the table in whose directory the stranger lies."""

    uuid: str
    oldest_ms: int
    metadata: frozenset[str]
    snapshot_ids: frozenset[int]
    recent_ms: int


@dataclass(frozen=True, slots=True)
class Stranger:
    """The finding: its standing, its table's uuid, and the lists that it protects while it is there."""

    standing: Standing
    uuid: str
    lists: tuple[ManifestList, ...] = ()
    updated_ms: int = 0


class FileReads(Protocol):
    """What recognising needs of the stores."""

    def get(self, uri: str) -> bytes: ...

    def get_range(self, uri: str, start: int, length: int) -> bytes: ...


@dataclass(frozen=True)
class Recogniser:
    """Everything known of the fleet's tables, carried to the executors that open the strangers."""

    fleet: Mapping[str, Known]
    abandoned: frozenset[str]

    @staticmethod
    def of(states: Iterable[TableState], since: datetime, abandoned: Collection[str]) -> Recogniser:
        recent_ms = int(since.timestamp() * 1000)
        return Recogniser({s.uuid: _known(s, recent_ms) for s in states if s.uuid}, frozenset(abandoned))

    def __call__(self, uri: str, table: str, stores: FileReads, whole: bool = False) -> dict[str, object] | None:
        """The finding on one file as plain values; None for an old version or one of an abandoned table.

        An old version with a `rank` may be the one that was current at the cut-off: of all with the same uuid the one
        with the highest is, and is asked about once more, as a `whole`.
        """
        try:
            found = recognise(uri, self.fleet, stores, whole)
        except FileNotFoundError:
            return None
        except (LakewardenError, OSError) as error:
            return _finding(Stranger(Standing.UNREADABLE, "")) | {"why": str(error)}
        except GARBLED as error:
            # It says that it is a table of ours, in fields that make no sense here: a newer writer's, for all we know.
            return _finding(Stranger(Standing.UNREADABLE, "")) | {"why": f"{type(error).__name__}: {error}"}
        ours = self.fleet.get(found.uuid)
        if found.standing is Standing.ANCESTOR and ours and found.updated_ms < ours.recent_ms < ours.oldest_ms:
            return _finding(found) | {"rank": found.updated_ms}
        if found.uuid in self.abandoned or (
            found.standing in (Standing.ANCESTOR, Standing.LEFTOVER) and not found.lists
        ):
            return None
        return _finding(found)


def _finding(found: Stranger) -> dict[str, object]:
    """Plain values. The totals of its snapshots are told too: nothing else proves that a list is whole."""
    return {
        "standing": str(found.standing),
        "uuid": found.uuid,
        "lists": [item.uri for item in found.lists],
        "totals": [(item.data_files, item.delete_files) for item in found.lists],
        "format": "iceberg",
    }


def _known(state: TableState, recent_ms: int) -> Known:
    return Known(
        uuid=state.uuid,
        oldest_ms=min((entry.current_from_ms for entry in state.history), default=state.updated_ms),
        metadata=frozenset(canonical(uri) for uri in (state.metadata_location, *(e.uri for e in state.history))),
        snapshot_ids=state.snapshot_ids,
        recent_ms=recent_ms,
    )


def _logged(ours: Known) -> Stranger:
    """One that the table's log still names: no stranger, though an expiry is about to trim it from the log."""
    return Stranger(Standing.ANCESTOR, ours.uuid, updated_ms=ours.recent_ms)


def recognise(uri: str, fleet: Mapping[str, Known], stores: FileReads, whole: bool = False) -> Stranger:
    """Whose a metadata file is. Its first bytes settle most of them; read as a `whole`, any of ours says what it reaches."""
    start = stores.get_range(uri, 0, HEAD_BYTES)
    if not whole and not start.startswith(GZIP_MAGIC):
        uuid, updated = _UUID.search(start), _UPDATED.search(start)
        if uuid is not None and updated is not None:
            name = uuid.group(1).decode(errors="replace")
            ours = fleet.get(name)
            if ours is None:
                return Stranger(Standing.FOREIGN, name)
            if uri in ours.metadata:
                return _logged(ours)
            if int(updated.group(1)) < min(ours.oldest_ms, ours.recent_ms):
                return Stranger(Standing.ANCESTOR, name, updated_ms=int(updated.group(1)))
    try:
        document = parse(stores.get(uri), uri)
    except BoundsError:
        # Other readers may take it: it is somebody's, and nobody here can say what it needs.
        raise
    except UnreadableMetadataError:
        uuid = _UUID.search(start)
        name = uuid.group(1).decode(errors="replace") if uuid else ""
        if name and name not in fleet:
            return Stranger(Standing.FOREIGN, name)
        return Stranger(Standing.NAMELESS, name)
    name = str(document.get("table-uuid") or "")
    ours = fleet.get(name)
    if ours is None:
        return Stranger(Standing.FOREIGN if name else Standing.NAMELESS, name)
    if uri in ours.metadata:
        return _logged(ours)
    check_kinds(document)
    if not 1 <= integer(document.get("format-version")) <= NEWEST_FORMAT:
        raise ValueError(f"format version {document['format-version']}")
    updated_ms = instant_ms(document.get("last-updated-ms") or 0)
    unknown = [
        s
        for s in snapshots_of(document)
        if integer(s["snapshot-id"]) not in ours.snapshot_ids and s.get("manifest-list")
    ]
    lists = tuple(manifest_list(snapshot, soft=True) for snapshot in unknown)
    if updated_ms < ours.oldest_ms:
        return Stranger(Standing.ANCESTOR, name, lists if whole or updated_ms >= ours.recent_ms else (), updated_ms)
    parents = [canonical(str(entry["metadata-file"])) for entry in document.get("metadata-log") or []]
    if parents and parents[-1] not in ours.metadata:
        return Stranger(Standing.FORK, name, lists)
    recent = [s for s in unknown if instant_ms(s.get("timestamp-ms") or 0) >= ours.oldest_ms]
    return Stranger(Standing.RIVAL if recent else Standing.LEFTOVER, name, lists)
