"""What expiry would take from one table: which snapshots go, which stay and why, and who still needs files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from lakewarden.model.errors import Refusal
from lakewarden.model.history import Archived
from lakewarden.model.policy import ExpiryPolicy
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.table import Holder, Pointer, TableState

Detail = Mapping[str, Any]
Changes = Mapping[str, int]  # by kind: "snapshots", "refs"


@dataclass(frozen=True, slots=True)
class SnapshotLine:
    """One snapshot of one branch, and why it goes or stays."""

    branch: str
    snapshot_id: int
    committed_ms: int
    reason: str

    def as_json(self) -> dict[str, str | int]:
        return {
            "branch": self.branch,
            "snapshot_id": self.snapshot_id,
            "committed_ms": self.committed_ms,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class RefLine:
    """One branch or tag, and why it goes or stays."""

    name: str
    kind: str
    snapshot_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Expiration:
    """One table's expiry: which snapshots go, and who needs files afterwards.

    `only_archived`: nothing goes that history has not archived. `detail` is what the format must know to carry it out, and to see whether the table is still the planned one; it is
    kept in the plan.
    """

    expired: tuple[SnapshotLine, ...] = ()
    kept: tuple[SnapshotLine, ...] = ()
    refs_expired: tuple[RefLine, ...] = ()
    refs_kept: tuple[RefLine, ...] = ()
    holders: tuple[Holder, ...] = ()
    changelogs: int = 0
    only_archived: bool = False
    detail: Detail = field(default_factory=dict)
    refusal: Refusal | None = None

    def __bool__(self) -> bool:
        """Whether anything goes."""
        return bool(self.expired or self.refs_expired or self.changelogs)


class ExpirySteps(Protocol):
    """The steps that a format may take while it expires a table, and what it may ask meanwhile.

    A format decides, and has no store or journal of its own: an archive is kept, and a file removed, through these
    steps alone, so each of them is taken under the leases and is on the record.
    """

    @property
    def now(self) -> datetime: ...

    @property
    def in_use_since(self) -> datetime | None:
        """Since when somebody has been at work on the table, if anybody is."""
        ...

    @property
    def in_use_snapshots(self) -> Collection[int]:
        """Snapshots that files are being rewritten from now: none of them may go."""
        ...

    @property
    def announced(self) -> frozenset[int] | None:
        """Snapshots that this run was about to expire when it was last heard of; None if it never came that far."""
        ...

    def archived(self, snapshots: Collection[int]) -> Archived | None:
        """Which of a table's snapshots history has archived by now; None where that is not asked for."""
        ...

    def retire(self, files: Sequence[JournalFile]) -> Sequence[FileOutcome]:
        """Remove metadata files of expired snapshots, and say what became of each. There is no other way to."""
        ...

    def archive(self, document: bytes, snapshots: Sequence[int]) -> None:
        """Keep a table's metadata as it was before these snapshots went."""
        ...


class Expirer(Protocol):
    """How a format expires snapshots."""

    def survey(self, state: TableState, policy: ExpiryPolicy, now: datetime) -> Expiration:
        """What may go now. What cannot be understood comes back refused, never raised."""
        ...

    def outdated(self, pointer: Pointer, detail: Detail, *, resumed: bool) -> str | None:
        """Why the plan does not fit the table any more; None if it does. `resumed`: part of it may be done already."""
        ...

    def carry_out(self, pointer: Pointer, detail: Detail, steps: ExpirySteps) -> Changes:
        """Expire what was planned and may still go, and say how much of each kind went."""
        ...
