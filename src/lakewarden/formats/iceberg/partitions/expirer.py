"""Partition expiry as the worker asks for it: what to read, what goes, one commit a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.formats.iceberg.commit.new_snapshot import current_snapshot
from lakewarden.formats.iceberg.commit.versions import Versions, read_version
from lakewarden.formats.iceberg.metadata.document import manifest_list
from lakewarden.formats.iceberg.partitions.choice import PartitionClock, expirable_partitions
from lakewarden.formats.iceberg.partitions.drop import drop_partitions
from lakewarden.formats.iceberg.partitions.specs import Spec, specs_of
from lakewarden.model.errors import LakewardenError, PlanOutdatedError, Refusal, UnreadableMetadataError
from lakewarden.model.partitions import Drop, PartitionExpiration, PartitionFiles
from lakewarden.model.policy import PartitionPolicy
from lakewarden.model.ports import Files
from lakewarden.model.table import Hold, Holder, ManifestList, Pointer, TableState, name_within

REMEMBERED = 10_000  # metadata files, of which a long-lived worker sees ever new ones


@dataclass(frozen=True, slots=True)
class Aging:
    """What one metadata file says of partitions."""

    specs: Mapping[int, Spec]
    times: Mapping[int, int]
    lists: tuple[ManifestList, ...]

    @staticmethod
    def of(document: Mapping[str, Any]) -> Aging:
        snapshot = current_snapshot(document)
        return Aging(
            specs_of(document),
            {int(s["snapshot-id"]): int(s["timestamp-ms"]) for s in document.get("snapshots") or []},
            () if snapshot is None else (manifest_list(snapshot),),
        )


class IcebergPartitionExpirer:
    """Partitions of the main branch; other branches and tags keep theirs."""

    def __init__(self, files: Files, versions: Callable[[], Versions]) -> None:
        """`versions` opens the catalog, or raises UnsupportedTableError for a kind that cannot be changed safely."""
        self._files = files
        self._versions = versions
        self._known: dict[str, Aging] = {}

    def latest(self, state: TableState, policy: PartitionPolicy) -> Holder | Refusal | None:
        """The list of the current snapshot; None for a table whose partitions do not age."""
        try:
            if policy.expiration is None:
                return None
            found = self._aging(state)
            if not found.lists or not any(spec.fields for spec in found.specs.values()):
                return None
            PartitionClock.of(policy)
            self._versions()
        except LakewardenError as error:
            return error.refusal()
        return Holder(Hold.ALL, found.lists)

    def commit_times(self, state: TableState) -> Mapping[int, int]:
        return self._aging(state).times

    def survey(
        self, state: TableState, policy: PartitionPolicy, partitions: Iterable[PartitionFiles], now: datetime
    ) -> PartitionExpiration:
        """Which of the partitions that were read go."""
        try:
            return expirable_partitions(self._aging(state).specs, policy, partitions, now)
        except LakewardenError as error:
            return PartitionExpiration(refusal=error.refusal())

    def drop(self, pointer: Pointer, drop: Drop, now_ms: int) -> Mapping[str, Any] | None:
        """One commit that marks every file of the partitions as deleted; the files stay until snapshots expire."""
        versions = self._versions()
        table = name_within(pointer.identifier)
        seen = read_version(self._files, pointer.metadata_location).document.get("table-uuid")
        if versions.current(table).document.get("table-uuid") != seen:
            raise PlanOutdatedError(f"{pointer.identifier} was dropped and made again; nothing of it was changed")
        return drop_partitions(versions, self._files, table, drop, now_ms)

    def _aging(self, state: TableState) -> Aging:
        """Raises UnreadableMetadataError."""
        location = state.metadata_location
        if (known := self._known.get(location)) is not None:
            return known
        try:
            found = Aging.of(read_version(self._files, location).document)
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableMetadataError(
                f"{location} lacks or garbles a field ({error}); nothing was touched"
            ) from error
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[location] = found
        return found
