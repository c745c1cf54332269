"""Leases by compare-and-swap: who works on a root or group, with an epoch that grows with each holder.

A lease saves duplicate work. It is the epoch, checked where the change is made, that keeps data safe.
"""

from __future__ import annotations

import hashlib
import random
import re
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from lakewarden.ledger.lease import Lease, LeaseParts
from lakewarden.ledger.lease_counts import ACQUIRED, CORRUPT, OVERTAKEN, REFUSED, SCAVENGED, LeaseCounts
from lakewarden.ledger.processes import own_process, started_at
from lakewarden.model.clock import Clock
from lakewarden.model.errors import LeaseCorruptError, LeaseHeldError, NotFoundError, StoreUnavailableError
from lakewarden.model.lease import LeaseRecord, LeaseState, LeaseStatus, Sighting, Work, first_record, proven_dead
from lakewarden.model.margins import MARGINS
from lakewarden.model.uri import FileUri
from lakewarden.storage.cas import Ambiguous, Conflict, Register, open_register, registers
from lakewarden.storage.stores import Stores

__all__ = ["GROUPS", "Lease", "Leases"]

# Keys of groups of files that are rewritten begin so. There are many of them, so they lie in a directory of their own.
GROUPS = "compaction/"
WRITE_TRIES = 8
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
READ_AT_ONCE = 16
# How often a held lease is looked at while it could run out. It is renewed ten times in that.
LOOKS_A_LIFE = 60
# No lease of ours lives longer; a record that says so is not waited for.
LONGEST_WATCH = 900.0
# Told how long a lease has been waited for, and how long it takes at most to know that its holder is dead, in seconds.
Watched = Callable[[int, int], None]
_EPOCH_OF_CORRUPT = re.compile(rb'"epoch"\s*:\s*(\d{1,15})')


@dataclass
class _Watch:
    """Of one wait for a lease: since when, until when a holder at work is waited for, whom to tell, what was seen first."""

    began: float
    give_up: float
    told: Watched | None
    first: LeaseRecord | None = None
    # Attempts of ours to write it, any of which may arrive late; and when the first of them was overtaken.
    tried: set[str] = field(default_factory=set)
    overtaken: float | None = None


class Leases:
    """The leases below one address, for one holder (a worker's id)."""

    def __init__(
        self,
        stores: Stores,
        base_uri: str,
        clock: Clock,
        holder: str,
        *,
        nonce: Callable[[], str] = lambda: secrets.token_hex(8),
        jitter: Callable[[], float] = random.random,
        register: Callable[[Stores, str], Register] = open_register,
        wait: float | None = 0.0,
    ) -> None:
        self._stores = stores
        self._base = FileUri.parse(base_uri).as_prefix()
        self._clock = clock
        self._holder = holder
        self._nonce = nonce
        self._jitter = jitter
        self._register = register
        self._wait = wait
        self._seen: dict[str, Sighting] = {}
        self._unreleased: dict[str, Lease] = {}
        self.counts = LeaseCounts()
        self._parts = LeaseParts(clock, nonce, jitter, self.counts, self._keep_unreleased)

    def waiting(self, wait: float | None) -> Leases:
        """The same leases for whoever waits so many seconds for a holder.

        None: a holder that renews its lease is reported as soon as that is seen, and a silent one is watched until its
        lease has run out. A worker that was killed on another machine is succeeded that way, by the next command.
        """
        other = copy(self)
        other._wait = wait
        return other

    def acquire(
        self,
        key: str,
        ttl_seconds: float,
        *,
        wait: float = 0.0,
        watched: Watched | None = None,
        work: Work | None = None,
    ) -> Lease:
        """The lease, or LeaseHeldError naming the holder. `wait`: how long to wait at least for one that is at work.

        `watched` is told every few seconds, and may raise to end the wait. `work` is what the lease is for.
        """
        self._release_again()
        register = self._open(key)
        began = self._clock.boot()
        watch = _Watch(began, began + max(wait, self._wait or 0.0), watched)

        def attempt() -> Lease:
            held = self._when_free(register, key, watch)
            nonce, now, ours = self._nonce(), self._clock.now(), own_process()
            if held is None:
                record, token = first_record(key, self._holder, nonce, ttl_seconds, now, ours, work), None
            elif held[0].nonce in watch.tried:
                # An earlier attempt of ours, which was not heard of and arrived after all.
                record, token = held[0].renewed(nonce, now), held[1]
            else:
                record, token = held[0].taken(self._holder, nonce, ttl_seconds, now, ours, work), held[1]
            # The deadline counts from before the write left us, never from when the answer came.
            before = self._clock.boot()
            try:
                written = self._write(register, record, token, watch)
            except StoreUnavailableError:
                # It may stand there as ours, although nobody will work under it.
                self._keep_unreleased(Lease(register, record, None, before, self._parts))
                raise
            if written is None:
                watch.overtaken = before if watch.overtaken is None else watch.overtaken
                self.counts.add(OVERTAKEN)
                raise Conflict(key)
            self._seen.pop(key, None)
            self.counts.add(ACQUIRED)
            return Lease(register, *written, before, self._parts)

        budget = MARGINS.lease_write_seconds
        overtaken = Retrying(
            retry=retry_if_exception_type(Conflict),
            stop=lambda _: watch.overtaken is not None and self._clock.boot() - watch.overtaken >= budget,
            wait=lambda state: (
                0.001 + self._jitter() * min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(state.attempt_number, 9))
            ),
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            return overtaken(attempt)
        except Conflict as error:
            raise StoreUnavailableError(
                f"the lease {key} could not be written in {budget:g} seconds; it is not held"
            ) from error
        except LeaseHeldError:
            self.counts.add(REFUSED)
            raise

    def _keep_unreleased(self, lease: Lease) -> None:
        """Remember a lease whose work is over and whose release the store did not take: on a full disk, say."""
        self._unreleased[lease.key] = lease

    def _release_again(self) -> None:
        for key, lease in list(self._unreleased.items()):
            if lease.release_again() and self._unreleased.get(key) is lease:
                self._unreleased.pop(key, None)

    def look(self, key: str) -> LeaseRecord | None:
        """The lease as its record stands, whoever holds it; None if it was never taken. Raises LeaseCorruptError."""
        held = self._read(self._open(key), key)
        return held[0] if held is not None else None

    def list(self) -> Sequence[LeaseRecord]:
        """Every lease ever taken here, tombstones included; corrupt records are left out (acquire reports them)."""
        return sorted((record for _, record in self.every() if record is not None), key=lambda record: record.key)

    def every(self) -> Sequence[tuple[str, LeaseRecord | None]]:
        """Every lease with its address; None for a corrupt record."""
        return self.records("", GROUPS)

    def records(self, *directories: str, since: datetime | None = None) -> Sequence[tuple[str, LeaseRecord | None]]:
        """The leases of some directories with their addresses, those written to since then; None for a corrupt record."""

        def read(uri: str) -> tuple[str, LeaseRecord | None] | None:
            answer = self._register(self._stores, uri).read()
            try:
                return (uri, LeaseRecord.loads(answer[0])) if answer is not None else None
            except ValueError:
                return uri, None

        there = [uri for one in directories for uri in registers(self._stores, self._base + one, since)]
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            return [found for found in pool.map(read, there) if found is not None]

    def clear(self, record: LeaseRecord) -> LeaseRecord | None:
        """The tombstone of a lease whose holder is surely gone, if it was written; None if the holder may be at work.

        Surely gone: silent for all of its time since this worker first looked, or a dead process of this worker.
        """
        if record.state is not LeaseState.HELD or not self._free(record):
            return None
        register = self._open(record.key)
        answer = register.read()
        if answer is None or answer[0] != record.dumps():
            return None
        tombstone = record.released(self._nonce(), self._clock.now(), "", LeaseStatus.SCAVENGED)
        try:
            register.write(tombstone.dumps(), answer[1])
        except (Conflict, StoreUnavailableError):
            return None  # somebody took it, or the store is away: the next look finds out
        self._seen.pop(record.key, None)
        self.counts.add(SCAVENGED)
        return tombstone

    def held(self, key: str) -> LeaseRecord | None:
        """The lease as it stands if somebody may be at work under it; None if it can be taken. Raises LeaseCorruptError."""
        held = self._read(self._open(key), key)
        return None if held is None or self._free(held[0]) else held[0]

    def force_release(self, key: str, reason: str, operator: str) -> LeaseRecord:
        """Write the tombstone in somebody else's name. The old holder finds out at its next renewal, and stops."""
        register = self._open(key)
        note = f"released by {operator}: {reason}"

        def attempt() -> LeaseRecord:
            answer = register.read()
            if answer is None:
                raise NotFoundError(
                    f"there is no lease {key}; nothing was changed",
                    hint="`lakewarden leases` lists those that are held.",
                )
            now = self._clock.now()
            try:
                record = LeaseRecord.loads(answer[0]).released(self._nonce(), now, note)
            except ValueError:
                record = self._after_corruption(key, answer[0], note)
            try:
                register.write(record.dumps(), answer[1])
            except (Conflict, Ambiguous) as error:
                after = register.read()
                if after is None or after[0] != record.dumps():
                    raise Conflict(key) from error
            return record

        changed = Retrying(retry=retry_if_exception_type(Conflict), stop=stop_after_attempt(WRITE_TRIES), reraise=True)
        try:
            return changed(attempt)
        except Conflict as error:
            raise StoreUnavailableError(f"the lease {key} keeps changing; it was not released") from error

    def _after_corruption(self, key: str, data: bytes, note: str) -> LeaseRecord:
        """A tombstone above every epoch that can have been: the clock's seconds exceed any count of holders."""
        now = self._clock.now()
        seen = [int(number) for number in _EPOCH_OF_CORRUPT.findall(data)]
        epoch = max([int(now.timestamp()), *(number + 1 for number in seen)])
        return LeaseRecord(
            key, "", epoch, epoch, self._nonce(), LeaseState.RELEASED, 1.0, now, now, None, note, LeaseStatus.RELEASED
        )

    def _read(self, register: Register, key: str) -> tuple[LeaseRecord, str] | None:
        answer = register.read()
        if answer is None:
            return None
        try:
            record = LeaseRecord.loads(answer[0])
            if record.key != key:
                raise ValueError(f"the record is for {record.key!r}")
            return record, answer[1]
        except ValueError as error:
            aside = f"{self._uri(key)}.corrupt-{hashlib.sha256(answer[0]).hexdigest()[:12]}"
            self._stores.put(aside, answer[0])
            self.counts.add(CORRUPT)
            raise LeaseCorruptError(
                f"the lease {key} is corrupt ({error}); a copy is at {aside}, nothing was done under it"
            ) from error

    def _free(self, record: LeaseRecord) -> bool:
        if record.state is LeaseState.RELEASED:
            return True
        over = self._unreleased.get(record.key)
        if over is not None and over.owns(record):
            return True
        if record.holder == self._holder and record.process is not None:
            dead = proven_dead(record.process, own_process(), started_at(record.process.pid))
            if dead:
                return True
        return self._clock.boot() >= self._sighting(record).stealable_at(record)

    def _sighting(self, record: LeaseRecord) -> Sighting:
        """Since when this record was seen unchanged: from now on, if another thread has taken the lease meanwhile."""
        seen = self._seen.get(record.key)
        if seen is None or not seen.of(record):
            seen = self._seen[record.key] = Sighting(record.epoch, record.seq, record.nonce, self._clock.boot())
        return seen

    def _when_free(self, register: Register, key: str, watch: _Watch) -> tuple[LeaseRecord, str] | None:
        """The record and its token when the lease may be taken; None if it never was. Raises LeaseHeldError."""
        while True:
            held = self._read(register, key)
            sighted = key in self._seen
            if held is None or held[0].nonce in watch.tried or self._free(held[0]):
                return held
            if not sighted and self._wait is None:
                self._look_around()
            record = held[0]
            watch.first = watch.first or record
            silent = self._wait is None and record == watch.first
            give_up = max(watch.give_up, watch.began + LONGEST_WATCH) if silent else watch.give_up
            self._wait_for(record, give_up, renewed=record != watch.first)
            if watch.told is not None:
                seen = self._sighting(record)
                longest = seen.stealable_at(record) - seen.since
                watch.told(int(self._clock.boot() - watch.began), int(longest))

    def _look_around(self) -> None:
        """Begin to watch every lease that is held, since one has to be waited for: a worker that was killed leaves
        several, and the times in which they run out should pass side by side."""
        for record in self.list():
            if record.state is LeaseState.HELD:
                self._free(record)

    def _wait_for(self, record: LeaseRecord, give_up: float, *, renewed: bool) -> None:
        now = self._clock.boot()
        if now >= give_up or record.ttl_seconds > LONGEST_WATCH:
            at_work = ", and again while this command watched" if renewed else ""
            raise LeaseHeldError(
                f"{record.key} is held by {record.holder} (epoch {record.epoch}, renewed {record.renewed_at:%H:%M:%S} "
                f"by its clock{at_work}); nothing was done under it",
                record=record,
            )
        left = max(0.0, self._sighting(record).stealable_at(record) - now)
        pause = min(give_up - now, left, max(0.05, record.ttl_seconds / LOOKS_A_LIFE))
        self._clock.sleep(max(0.01, pause * (0.5 + self._jitter() / 2)))

    def _write(
        self, register: Register, record: LeaseRecord, token: str | None, watch: _Watch
    ) -> tuple[LeaseRecord, str] | None:
        """The record as it is held and its token, or None: then look again.

        A failed conditional write may still have been ours. If an attempt of ours is found, the lease counts only
        after one more write on top of it: that one's success needs no guess about the first.
        """
        for _ in range(WRITE_TRIES):
            watch.tried.add(record.nonce)
            try:
                return record, register.write(record.dumps(), token)
            except (Conflict, Ambiguous):
                answer = register.read()
                if answer is None:
                    return None
                try:
                    found = LeaseRecord.loads(answer[0])
                except ValueError:
                    return None
                if found.nonce not in watch.tried:
                    return None
                record, token = found.renewed(self._nonce(), self._clock.now()), answer[1]
        return None

    def _open(self, key: str) -> Register:
        return self._register(self._stores, self._uri(key))

    def _uri(self, key: str) -> str:
        """A name any store can carry: readable letters, and a digest that tells all keys apart."""
        readable = re.sub(r"[^A-Za-z0-9_-]+", "-", key.removeprefix(GROUPS)).strip("-")[-60:].strip("-")
        directory = self._base + (GROUPS if key.startswith(GROUPS) else "")
        return f"{directory}{readable}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.register"
