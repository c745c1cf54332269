"""What a lease is: one small record a work group, and the rules by which it may be taken.

No rule compares another machine's wall clock. A holder counts its own boot clock from before it wrote;
a taker counts its own boot clock from when it first saw the record it wants to take.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum

VERSION = 1


class LeaseState(StrEnum):
    HELD = "held"
    RELEASED = "released"


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
    v: int = VERSION

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
            process = body.pop("process")
            record = LeaseRecord(
                **{
                    **body,
                    "state": LeaseState(body["state"]),
                    "acquired_at": datetime.fromisoformat(body["acquired_at"]),
                    "renewed_at": datetime.fromisoformat(body["renewed_at"]),
                    "process": Process(**process) if process else None,
                }
            )
            if min(int(record.epoch), int(record.seq)) < 1 or float(record.ttl_seconds) <= 0:
                raise ValueError("lease record with a number out of range")
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a lease record: {error}") from error
        return record

    def taken(self, holder: str, nonce: str, ttl_seconds: float, now: datetime, process: Process | None) -> LeaseRecord:
        """The next holder's record: a new epoch."""
        return LeaseRecord(
            self.key, holder, self.epoch + 1, self.seq + 1, nonce, LeaseState.HELD, ttl_seconds, now, now, process
        )

    def renewed(self, nonce: str, now: datetime) -> LeaseRecord:
        return replace(self, seq=self.seq + 1, nonce=nonce, renewed_at=now)

    def released(self, nonce: str, now: datetime, note: str = "") -> LeaseRecord:
        """The tombstone: it keeps the epoch, so that the next holder's is higher."""
        return replace(self, seq=self.seq + 1, nonce=nonce, renewed_at=now, state=LeaseState.RELEASED, note=note)


def first_record(
    key: str, holder: str, nonce: str, ttl_seconds: float, now: datetime, process: Process | None
) -> LeaseRecord:
    return LeaseRecord(key, holder, 1, 1, nonce, LeaseState.HELD, ttl_seconds, now, now, process)


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
        """A live holder stops its work at two thirds of the time to live; a taker waits for all of it."""
        return self.since + record.ttl_seconds


def proven_dead(held: Process | None, ours: Process | None, started_now: int | None) -> bool:
    """Whether the holding process is surely gone: same boot and pid space as ours, and its pid is free or reused."""
    if held is None or ours is None:
        return False
    if (held.boot_id, held.pid_space) != (ours.boot_id, ours.pid_space):
        return False
    return started_now is None or started_now != held.started
