"""Partition expiry as the worker asks for it: what to read, what goes, one commit a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.formats.iceberg.commit.new_snapshot import current_snapshot
from lakewarden.formats.iceberg.commit.versions import Versions
from lakewarden.formats.iceberg.metadata.document import GARBLED, manifest_list
from lakewarden.formats.iceberg.metadata.known import KnownVersions
from lakewarden.formats.iceberg.partitions.choice import PartitionClock, expirable_partitions
from lakewarden.formats.iceberg.partitions.drop import drop_partitions
from lakewarden.formats.iceberg.partitions.specs import Spec, specs_of
from lakewarden.model.errors import LakewardenError, PlanOutdatedError, Refusal, UnreadableMetadataError
from lakewarden.model.partitions import Drop, PartitionExpiration, PartitionFiles
from lakewarden.model.policy import PartitionPolicy
from lakewarden.model.ports import Files
from lakewarden.model.table import Hold, Holder, ManifestList, Pointer, TableState, name_within


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

    def __init__(self, files: Files, known: KnownVersions, versions: Callable[[], Versions]) -> None:
        """`versions` opens the catalog, or raises UnsupportedTableError for a kind that cannot be changed safely."""
        self._files = files
        self._known = known
        self._versions = versions
        self._ages: dict[str, tuple[str, Aging]] = {}  # by table: at which metadata file, and what it says

    def latest(self, state: TableState, policy: PartitionPolicy) -> Holder | Refusal | None:
        """The list of the current snapshot; None for a table whose partitions do not age."""
        try:
            if policy.expiration is None:
                return None
            found = self._aging(state)
            self._ages[state.identifier] = state.metadata_location, found
            if not found.lists or not any(spec.fields for spec in found.specs.values()):
                return None
            PartitionClock.of(policy)
            self._versions()
        except LakewardenError as error:
            return error.refusal()
        return Holder(Hold.ALL, found.lists)

    def commit_times(self, state: TableState) -> Mapping[int, int]:
        return self._aged(state).times

    def survey(
        self, state: TableState, policy: PartitionPolicy, partitions: Iterable[PartitionFiles], now: datetime
    ) -> PartitionExpiration:
        """Which of the partitions that were read go."""
        try:
            return expirable_partitions(self._aged(state).specs, policy, partitions, now)
        except LakewardenError as error:
            return PartitionExpiration(refusal=error.refusal())

    def drop(self, pointer: Pointer, drop: Drop, now_ms: int) -> Mapping[str, Any] | None:
        """One commit that marks every file of the partitions as deleted; the files stay until snapshots expire."""
        versions = self._versions()
        table = name_within(pointer.identifier)
        seen = self._known.fresh(pointer.metadata_location).document.get("table-uuid")
        if versions.current(table).document.get("table-uuid") != seen:
            raise PlanOutdatedError(f"{pointer.identifier} was dropped and made again; nothing of it was changed")
        return drop_partitions(versions, self._files, table, drop, now_ms)

    def _aged(self, state: TableState) -> Aging:
        """What `latest` found: the documents of a fleet are more than can be kept, and this is little of each."""
        location, found = self._ages.get(state.identifier, ("", None))
        return found if found is not None and location == state.metadata_location else self._aging(state)

    def _aging(self, state: TableState) -> Aging:
        """Raises UnreadableMetadataError."""
        location = state.metadata_location
        try:
            return Aging.of(self._known.loaded(location).document)
        except GARBLED as error:
            raise UnreadableMetadataError(
                f"{location} lacks or garbles a field ({error}); nothing was touched"
            ) from error
