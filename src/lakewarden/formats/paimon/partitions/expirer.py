"""Partition expiry as the worker asks for it: what to read, what goes, one commit a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.partitions.choice import PartitionRetention, expirable_partitions, partition_rules
from lakewarden.formats.paimon.partitions.drop import check_droppable, drop_partitions
from lakewarden.model.errors import LakewardenError, Refusal
from lakewarden.model.partitions import Drop, PartitionExpiration, PartitionFiles
from lakewarden.model.policy import PartitionPolicy
from lakewarden.model.ports import Files
from lakewarden.model.table import Hold, Holder, ManifestList, Pointer, TableState


class PaimonPartitionExpirer:
    """Partitions of the main branch; other branches keep theirs."""

    def __init__(self, files: Files, known: KnownTables) -> None:
        self._files = files
        self._known = known

    def latest(self, state: TableState, policy: PartitionPolicy) -> Holder | Refusal | None:
        """The lists of the latest snapshot; None for a table whose partitions do not age."""
        try:
            table = self._known.at(state.metadata_location)
            schema, newest = table.main.schema, table.main.latest
            if newest is None or not schema.partition_keys or partition_rules(schema, policy) is None:
                return None
            check_droppable(schema)
        except LakewardenError as error:
            return error.refusal()
        names = [name for name in (newest.base, newest.delta) if name]
        return Holder(
            Hold.NET, tuple(ManifestList(table.manifest(name), length=newest.length_of(name)) for name in names)
        )

    def commit_times(self, state: TableState) -> Mapping[int, int]:
        """None: every entry has its own time."""
        return {}

    def survey(
        self, state: TableState, policy: PartitionPolicy, partitions: Iterable[PartitionFiles], now: datetime
    ) -> PartitionExpiration:
        """Which of the partitions that were read go."""
        try:
            schema = self._known.at(state.metadata_location).main.schema
        except LakewardenError as error:
            return PartitionExpiration(refusal=error.refusal())
        found: PartitionRetention = expirable_partitions(schema, policy, partitions, now)
        return PartitionExpiration(
            batches=tuple(found.batches),
            kept=found.kept,
            waiting=found.waiting,
            inactive=found.inactive,
            refusal=found.refusal,
        )

    def drop(self, pointer: Pointer, drop: Drop, now_ms: int) -> Mapping[str, Any] | None:
        """One commit that marks every file of the partitions as deleted; the files stay until snapshots expire.

        Partitions that hold something else than the plan saw are kept and named.
        """
        made = drop_partitions(
            pointer.metadata_location.rpartition("#")[0],
            self._files,
            drop.partitions,
            drop.commit_user,
            drop.commit_identifier,
            now_ms,
            expected=drop.expected,
            properties=drop.properties,
            table_now=self._known.now,
            may_empty=drop.may_empty,
        )
        found: dict[str, Any] = {}
        if (commit := made.commit) is not None:
            found = {"snapshot": commit.snapshot_id, "files": commit.files, "records": commit.records}
        if made.kept:
            went = len(drop.partitions) - len(made.kept) if commit else 0
            found |= {"partitions": went, "kept": sorted(partition.hex() for partition in made.kept)}
        return found or None
