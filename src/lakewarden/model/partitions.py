"""What partition expiry would take from one table: which partitions go, which stay, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from lakewarden.model.errors import Refusal
from lakewarden.model.policy import PartitionPolicy
from lakewarden.model.table import Holder, Pointer, TableState


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """One partition of the latest snapshot, over all its manifest entries, added and deleted.

    `files` is added minus deleted. `newest_ms` is the largest creation time of any entry, in the format's own terms
    (Paimon: a wall clock without a zone; Iceberg: when the snapshot was committed); None if that of an entry is not
    known. `known_ms` is the largest of those that are: a partition that was written to has another.

    `rows` are those of its data files, as manifests count them; what is deleted of them by other files is in `deletes`, as
    far as that is counted (Iceberg: positions and vectors; Paimon: records that delete). `bytes` are of all its files.
    """

    partition: bytes
    files: int
    newest_ms: int | None
    known_ms: int | None = None
    rows: int = 0
    deletes: int = 0
    bytes: int = 0

    @property
    def rows_left(self) -> int:
        """Rows that no counted delete can have taken: a position may be deleted twice, so there may be more."""
        return max(0, self.rows - self.deletes)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much some partitions of a table hold together."""

    partitions: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    rows_left: int = 0

    @staticmethod
    def of(partitions: Iterable[PartitionFiles]) -> Extent:
        """Of those that hold files; of the others, everything is gone already."""
        held = [row for row in partitions if row.files > 0]
        return Extent(
            len(held),
            sum(row.files for row in held),
            sum(row.rows for row in held),
            sum(row.bytes for row in held),
            sum(row.rows_left for row in held),
        )

    def as_json(self) -> dict[str, int]:
        return {"partitions": self.partitions, "files": self.files, "rows": self.rows, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition by its bytes, its name for people, and why it goes or stays."""

    partition: bytes
    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionExpiration:
    """One table's expiry: the batches that go, each in one commit, and what stays.

    `waiting` are those that stay only because no more may go at a time; they are among the kept.
    """

    batches: tuple[tuple[PartitionLine, ...], ...] = ()
    kept: tuple[PartitionLine, ...] = ()
    waiting: tuple[PartitionLine, ...] = ()
    inactive: str | None = None
    refusal: Refusal | None = None

    @property
    def expired(self) -> tuple[PartitionLine, ...]:
        return tuple(line for batch in self.batches for line in batch)


@dataclass(frozen=True, slots=True)
class Drop:
    """One commit that drops partitions: who makes it and under which number, so that it is never made twice.

    `expected` is what the plan saw in each: how many files, and the newest known time. `may_empty`: an operator has lifted
    the brake that keeps a commit from leaving a table without rows.
    """

    partitions: tuple[bytes, ...]
    commit_user: str
    commit_identifier: int
    properties: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[bytes, tuple[int, int | None]] = field(default_factory=dict)
    may_empty: bool = False


def partition_key(spec: int, values: Iterable[Any]) -> bytes:
    """A partition that is known by its values rather than by bytes of its own: the same for the same values, wherever read."""
    return json.dumps(
        [spec, [stored_value(value) for value in values]], separators=(",", ":"), ensure_ascii=False
    ).encode()


def stored_value(value: Any) -> Any:
    """Dates and times as the numbers they are stored as, bytes in hex."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, bytes | UUID):
        return (value if isinstance(value, bytes) else value.bytes).hex()
    return format(value, "f") if isinstance(value, Decimal) else value


class PartitionExpirer(Protocol):
    """How a format drops partitions."""

    def latest(self, state: TableState, policy: PartitionPolicy) -> Holder | Refusal | None:
        """What has to be read to know the partitions of a table; None where its partitions do not age."""
        ...

    def commit_times(self, state: TableState) -> Mapping[int, int]:
        """When each snapshot was committed (epoch ms), where entries say a snapshot and no time."""
        ...

    def survey(
        self, state: TableState, policy: PartitionPolicy, partitions: Iterable[PartitionFiles], now: datetime
    ) -> PartitionExpiration: ...

    def drop(self, pointer: Pointer, drop: Drop, now_ms: int) -> Mapping[str, Any] | None:
        """Commit; None if nothing was left to drop. Raises LakewardenError; PlanOutdatedError where no row would be left.

        What it says is recorded. `partitions` counts those that went if not all did; `kept` names, in hex, those that
        were written to while the commit was made.
        """
        ...
