"""What partition expiry would take from one table: which partitions go, which stay, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from lakewarden.model.errors import Refusal
from lakewarden.model.policy import PartitionPolicy
from lakewarden.model.table import Holder, Pointer, TableState


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """One partition of the latest snapshot, over all its manifest entries, added and deleted.

    `files` is added minus deleted. `newest_ms` is the largest creation time of any entry as the manifest has it: the
    milliseconds of a wall clock without a zone; None if an entry has none.
    """

    partition: bytes
    files: int
    newest_ms: int | None


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition by its bytes, its name for people, and why it goes or stays."""

    partition: bytes
    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionExpiration:
    """One table's expiry: the batches that go, each in one commit, and what stays."""

    batches: tuple[tuple[PartitionLine, ...], ...] = ()
    kept: tuple[PartitionLine, ...] = ()
    inactive: str | None = None
    refusal: Refusal | None = None

    @property
    def expired(self) -> tuple[PartitionLine, ...]:
        return tuple(line for batch in self.batches for line in batch)


@dataclass(frozen=True, slots=True)
class Drop:
    """One commit that drops partitions: who makes it and under which number, so that it is never made twice."""

    partitions: tuple[bytes, ...]
    commit_user: str
    commit_identifier: int
    properties: Mapping[str, str] = field(default_factory=dict)


class PartitionExpirer(Protocol):
    """How a format drops partitions."""

    def latest(self, state: TableState, policy: PartitionPolicy) -> Holder | Refusal | None:
        """What has to be read to know the partitions of a table; None where its partitions do not age."""
        ...

    def survey(
        self, state: TableState, policy: PartitionPolicy, partitions: Iterable[PartitionFiles], now: datetime
    ) -> PartitionExpiration: ...

    def drop(self, pointer: Pointer, drop: Drop, now_ms: int) -> Mapping[str, Any] | None:
        """Commit; None if nothing was left to drop. Raises LakewardenError."""
        ...
