"""The cold tier: what may be handed to it, where each file goes, and who moves a format's files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

from lakewarden.model.table import ManifestList, parts_of
from lakewarden.model.uri import FileUri, canonical

# Classes whose objects have to be asked back before they can be read.
ARCHIVE_CLASSES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
ELSEWHERE = "elsewhere/"
_NO_BUCKET = "_"


@dataclass(frozen=True, slots=True)
class HandoffPolicy:
    """Where the files of one table's expired snapshots go. Without a destination they are not copied."""

    enabled: bool
    dry_run: bool
    destination: str | None
    storage_class: str | None
    tags: Mapping[str, str]
    megabytes_per_second: float | None
    concurrency: int

    @staticmethod
    def of(values: Mapping[str, Any]) -> HandoffPolicy:
        """The policy that these values of `[tier_handoff]` spell, under the user's names and units."""
        return HandoffPolicy(
            enabled=values.get("enabled", False),
            dry_run=values["dry_run"],
            destination=values["destination"],
            storage_class=values["storage_class"],
            tags=dict(values["tags"]),
            megabytes_per_second=values["max_megabytes_per_second"],
            concurrency=values["max_concurrent_copies"],
        )

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {
            "dry_run": self.dry_run,
            "destination": self.destination,
            "storage_class": self.storage_class,
            "tags": dict(self.tags),
            "max_megabytes_per_second": self.megabytes_per_second,
            "max_concurrent_copies": self.concurrency,
        }

    @property
    def archives(self) -> bool:
        """Whether copies go to a class that cannot be read at once."""
        return (self.storage_class or "").upper() in ARCHIVE_CLASSES

    def class_for(self, *, live: bool) -> str | None:
        """The class of a data file's copy; none of its own for one that a live ref reaches and an archive would lock up."""
        return None if live and self.archives else self.storage_class


@dataclass(frozen=True, slots=True)
class Move:
    """Where each file goes when a table moves: the same path below another directory.

    `source` is canonical and ends in a slash; `target` ends in a slash and keeps its own spelling, which engines will
    read. Files outside `source` keep their whole address, below `elsewhere/`, so that no two files meet. `whole` says
    that all of them are inside.
    """

    source: str
    target: str
    whole: bool = False

    def __call__(self, uri: str) -> str:
        address = canonical(uri)
        rest = address.removeprefix(self.source)
        if rest and len(rest) < len(address) and (self.whole or not rest.startswith(ELSEWHERE)):
            return self.target + rest
        place = FileUri.parse(address)
        return f"{self.target}{ELSEWHERE}{place.scheme}/{place.bucket or _NO_BUCKET}/{place.key}"


def cold_directory(destination: str, identifier: str, uuid: str) -> str:
    """A table's directory in the cold place: named for people, and no other table's (two may have had one name)."""
    *parents, name = [re.sub(r"[^A-Za-z0-9_=-]+", "_", part) or "_" for part in parts_of(identifier)]
    return f"{destination.rstrip('/')}/{'/'.join(parents)}/{name}-{uuid[:8]}/"


def cold_uuid(directory: str, uuid: str) -> str:
    """The cold table's own uuid, the same every night: two tables of one uuid would look like a fork of one history."""
    return str(uuid5(NAMESPACE_URL, f"{canonical(directory)}#{uuid}"))


@dataclass(frozen=True, slots=True)
class AgedSnapshot:
    """A snapshot that expiry took out of a table, as its archived metadata has it."""

    snapshot_id: int
    committed_ms: int
    manifest_list: ManifestList
    statistics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MovedTable:
    """How a table is described at a new place: which snapshots, under which uuid, read-only or not."""

    uuid: str
    snapshots: tuple[int, ...]
    move: Move
    statistics: frozenset[str]
    read_only: bool
    origin: Mapping[str, str] = field(default_factory=dict)


Sizes = Callable[[Sequence[str]], Mapping[str, int]]


class Relocator(Protocol):
    """How a format's snapshots are moved to another place and opened there."""

    def aged(self, document: bytes, uri: str, snapshots: Sequence[int]) -> tuple[str, tuple[AgedSnapshot, ...]]:
        """The table's location and these snapshots of a metadata document. Raises LakewardenError."""
        ...

    def manifest(self, data: bytes, uri: str, move: Move, sizes: Sizes) -> bytes: ...

    def manifest_list(self, data: bytes, uri: str, move: Move, sizes: Sizes) -> bytes: ...

    def deletes(self, data: bytes, uri: str, move: Move) -> bytes | None:
        """A delete file with new addresses; None if a copy serves."""
        ...

    def document(self, sources: Sequence[bytes], previous: bytes | None, table: MovedTable) -> bytes:
        """The metadata at the new place: snapshots of `sources` (newest last), added to those of `previous`."""
        ...

    def described(self, document: bytes) -> tuple[Mapping[str, str], frozenset[int]]:
        """What a moved table's metadata says of where it came from (`MovedTable.origin`), and which snapshots it has."""
        ...

    def new_location(self, identifier: str) -> str:
        """Where a table of that name would lie. Raises RestoreError if the name is taken, NotFoundError if it cannot be."""
        ...

    def register(self, identifier: str, metadata_uri: str) -> None:
        """Enter a table into the catalog. Raises RestoreError if the name is taken."""
        ...

    def files_of(self, data: bytes, uri: str) -> list[tuple[str, str]]:
        """What one manifest list or manifest names: address and kind of each manifest, or of each live file."""
        ...
