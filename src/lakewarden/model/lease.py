"""What a lease is: one small record a work group, and the rules by which it may be taken.

No rule compares another machine's wall clock. A holder counts its own boot clock from before it wrote;
a taker counts its own boot clock from when it first saw the record it wants to take.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from math import inf

from lakewarden.model.margins import MARGINS

VERSION = 1
# No lease may be asked for a longer life.
LONGEST_LEASE_SECONDS = 3600


class LeaseState(StrEnum):
    HELD = "held"
    RELEASED = "released"


class LeaseStatus(StrEnum):
    """What became of the work under a lease. All but the first are tombstones: nobody holds the lease, its epoch stays."""

    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    SCAVENGED = "scavenged"


@dataclass(frozen=True, slots=True)
class Work:
    """What a lease is held for, where it is the rewriting of files: the lease's payload.

    `digest` names the files, in whatever order. `start_snapshot` is the snapshot that they are read from, once it is
    known: as long as the lease is held, no expiry may take it.
    """

    table: str
    table_uuid: str
    partition: str
    level: str
    groups: int
    files: int
    bytes: int
    digest: str
    start_snapshot: int | None = None
    progress: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """Enough to prove that a process of this machine is dead: boot, pid namespace, pid and its start tick."""

    boot_id: str
    pid_space: str
    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The document. `epoch` grows with each holder, `seq` with each write; `nonce` names one attempt to write."""

    key: str
    holder: str
    epoch: int
    seq: int
    nonce: str
    state: LeaseState
    ttl_seconds: float
    acquired_at: datetime
    renewed_at: datetime
    process: Process | None = None
    note: str = ""
    ended: LeaseStatus | None = None
    work: Work | None = None
    v: int = VERSION

    @property
    def status(self) -> LeaseStatus:
        return LeaseStatus.ACTIVE if self.state is LeaseState.HELD else self.ended or LeaseStatus.RELEASED

    def dumps(self) -> bytes:
        body = asdict(self)
        body["acquired_at"] = self.acquired_at.isoformat()
        body["renewed_at"] = self.renewed_at.isoformat()
        return json.dumps(body, sort_keys=True).encode()

    @staticmethod
    def loads(data: bytes) -> LeaseRecord:
        """Raises ValueError for anything that is not exactly a record: a doubtful lease counts as held."""
        try:
            body = json.loads(data)
            if body["v"] != VERSION:
                raise ValueError(f"lease record of version {body['v']}")
            process, work, ended = body.pop("process"), body.pop("work", None), body.pop("ended", None)
            record = LeaseRecord(
                **{
                    **body,
                    "state": LeaseState(body["state"]),
                    "acquired_at": datetime.fromisoformat(body["acquired_at"]),
                    "renewed_at": datetime.fromisoformat(body["renewed_at"]),
                    "process": Process(**process) if process else None,
                    "ended": LeaseStatus(ended) if ended else None,
                    "work": Work(**work) if work else None,
                }
            )
            texts, counts = (record.key, record.holder, record.nonce, record.note), (record.epoch, record.seq)
            if not all(isinstance(text, str) for text in texts) or not all(type(count) is int for count in counts):
                raise ValueError("lease record with a field of another kind")
            if min(counts) < 1 or not 0 < float(record.ttl_seconds) < inf:
                raise ValueError("lease record with a number out of range")
            if record.acquired_at.tzinfo is None or record.renewed_at.tzinfo is None:
                raise ValueError("lease record with a time of no zone")
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a lease record: {error}") from error
        return record

    def taken(
        self,
        holder: str,
        nonce: str,
        ttl_seconds: float,
        now: datetime,
        process: Process | None,
        work: Work | None = None,
    ) -> LeaseRecord:
        """The next holder's record: a new epoch."""
        first = first_record(self.key, holder, nonce, ttl_seconds, now, process, work)
        return replace(first, epoch=self.epoch + 1, seq=self.seq + 1)

    def same_holding(self, other: LeaseRecord) -> bool:
        """Whether both were written by one holder for one stretch of work, whichever of its writes they are."""
        return (self.epoch, self.holder, self.acquired_at, self.process) == (
            other.epoch,
            other.holder,
            other.acquired_at,
            other.process,
        )

    def renewed(self, nonce: str, now: datetime) -> LeaseRecord:
        return replace(self, seq=self.seq + 1, nonce=nonce, renewed_at=now)

    def released(
        self, nonce: str, now: datetime, note: str = "", ended: LeaseStatus = LeaseStatus.RELEASED
    ) -> LeaseRecord:
        """The tombstone: it keeps the epoch, so that the next holder's is higher."""
        return replace(self.renewed(nonce, now), state=LeaseState.RELEASED, note=note, ended=ended)


def first_record(
    key: str,
    holder: str,
    nonce: str,
    ttl_seconds: float,
    now: datetime,
    process: Process | None,
    work: Work | None = None,
) -> LeaseRecord:
    return LeaseRecord(key, holder, 1, 1, nonce, LeaseState.HELD, ttl_seconds, now, now, process, work=work)


@dataclass(frozen=True, slots=True)
class Sighting:
    """When we first saw a record unchanged, on our own boot clock."""

    epoch: int
    seq: int
    nonce: str
    since: float

    def of(self, record: LeaseRecord) -> bool:
        return (self.epoch, self.seq, self.nonce) == (record.epoch, record.seq, record.nonce)

    def stealable_at(self, record: LeaseRecord) -> float:
        """A live holder stops its work at two thirds of the time to live; a taker waits for all of it, and for as long
        again as the clocks of two machines may drift apart in that time."""
        return self.since + record.ttl_seconds * (1 + MARGINS.lease_drift_share)


def proven_dead(held: Process | None, ours: Process | None, started_now: int | None) -> bool:
    """Whether the holding process is surely gone: same boot and pid space as ours, and its pid is free or reused."""
    if held is None or ours is None:
        return False
    if (held.boot_id, held.pid_space) != (ours.boot_id, ours.pid_space):
        return False
    return started_now is None or started_now != held.started
