"""A held lease: renewed in the background while its work lives, lost in time when it cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType

from lakewarden.ledger.lease_counts import ENDED, LOST, LeaseCounts
from lakewarden.model.clock import Clock
from lakewarden.model.errors import LakewardenError, LeaseLostError, StoreUnavailableError
from lakewarden.model.lease import LeaseRecord, LeaseState, LeaseStatus, Work
from lakewarden.model.margins import MARGINS
from lakewarden.storage.cas import Ambiguous, Conflict, Register

_RENEW_TRIES = 4
_RELEASE_TRIES = 4
# A renewal that failed is tried again after this share of the usual time: several tries fit in before the work has to stop.
_SOONER = 0.25


@dataclass(frozen=True)
class LeaseParts:
    """What every lease of a worker is made with: its clock, where attempts get their names and their jitter, its counts."""

    clock: Clock
    nonce: Callable[[], str]
    jitter: Callable[[], float]
    counts: LeaseCounts
    unreleased: Callable[[Lease], None]


class Lease:
    """Use as a context manager: entering starts the renewal, leaving stops it and releases.

    `lost` is set as soon as the lease is known to be taken, or two thirds of its time went by without a
    renewal: a third before anybody else may take it. Work must stop then.
    """

    def __init__(
        self, register: Register, record: LeaseRecord, token: str | None, written_at: float, parts: LeaseParts
    ) -> None:
        """`token` is None for a lease that may or may not have been written: it can only be released."""
        self._register = register
        self._record = record
        self._token = token
        self._clock = parts.clock
        self._parts = parts
        self._deadline = written_at + record.ttl_seconds * MARGINS.lease_work_share
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None
        self._released = token is None
        self._ending = (LeaseStatus.FAILED if token is None else LeaseStatus.RELEASED, "")
        self.lost = threading.Event()

    @property
    def key(self) -> str:
        return self._record.key

    @property
    def epoch(self) -> int:
        return self._record.epoch

    @property
    def holder(self) -> str:
        return self._record.holder

    @property
    def work(self) -> Work | None:
        return self._record.work

    def owns(self, record: LeaseRecord) -> bool:
        """Whether a record was written under this lease."""
        return self._record.same_holding(record)

    def check(self) -> None:
        """Raises LeaseLostError unless the lease is ours by our own clock. Asks no store."""
        if not self._released and self._clock.boot() >= self._deadline:
            self._lose()
        if self.lost.is_set() or self._released:
            raise LeaseLostError(f"the lease {self.key} (epoch {self.epoch}) is not held any more")

    def tell(self, work: Work) -> None:
        """Say what the lease is held for by now, and how far the work is. Known to others from the next renewal on."""
        with self._turn:
            self._record = replace(self._record, work=work)

    def renew(self) -> None:
        """One renewal. Raises LeaseLostError if another holder is there, StoreUnavailableError if it is not known."""
        with self._turn:
            self.check()
            record, token = self._record, self._token
            unclear: Exception | None = None
            for _ in range(_RENEW_TRIES):
                record = replace(record, work=self._record.work).renewed(self._parts.nonce(), self._clock.now())
                # The deadline counts from before the write left us, never from when the answer came.
                before = self._clock.boot()
                try:
                    self._token = self._register.write(record.dumps(), token)
                except (Conflict, Ambiguous) as error:
                    # The next attempt is made on top of what is there, if that is a write of ours.
                    unclear = error
                    if (found := self._ours()) is None:
                        self._lose()
                        raise LeaseLostError(
                            f"the lease {self.key} (epoch {self.epoch}) was taken or released by somebody else"
                        ) from error
                    record, token = found
                    continue
                self._record = record
                self._deadline = before + record.ttl_seconds * MARGINS.lease_work_share
                return
            raise StoreUnavailableError(f"the lease {self.key} could not be renewed") from unclear

    def complete(self) -> None:
        """The work is done and recorded."""
        self.release(LeaseStatus.COMPLETED)

    def fail(self, why: str) -> None:
        """The work came to nothing; whoever wants to may try it again at once."""
        self.release(LeaseStatus.FAILED, why)

    def release(self, ended: LeaseStatus = LeaseStatus.RELEASED, note: str = "") -> None:
        """Write the tombstone, which keeps the epoch. A failure is harmless: the lease runs out by itself."""
        self._halt()
        with self._turn:
            if self._released:
                return
            self._released = True
            self._ending = (ended, note)
        self._parts.counts.add(ENDED)
        # A lease that was lost may still stand there as ours, and nobody works under it any more.
        if self.lost.is_set() or not self.release_again():
            self._parts.unreleased(self)

    def release_again(self) -> bool:
        """Write the tombstone of a lease that was let go and not heard of; whether nothing is left to be released.

        A write that was refused may have been refused by a renewal of ours that arrived late, or may have been done all
        the same: what stands there decides.
        """
        ended, note = self._ending
        found = (self._record, self._token) if self._token is not None else None
        try:
            for _ in range(_RELEASE_TRIES):
                if found is None and (found := self._ours()) is None:
                    return True  # it is somebody else's by now, or is released
                record, token = found
                try:
                    self._register.write(
                        record.released(self._parts.nonce(), self._clock.now(), note, ended).dumps(), token
                    )
                    return True
                except (Conflict, Ambiguous):
                    found = None
        except StoreUnavailableError:
            return False
        return False

    def __enter__(self) -> Lease:
        self._renewer = threading.Thread(
            target=self._keep, args=(threading.current_thread(),), name=f"lease {self.key}", daemon=True
        )
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self.work is None:
            self.release()
        else:
            self.fail(error.code if isinstance(error, LakewardenError) else type(error).__name__)

    def _keep(self, worker: threading.Thread) -> None:
        """Renew until stopped, lost, or the thread whose work this is has ended: dead work must not keep a lease."""
        period = min(self._record.ttl_seconds / MARGINS.lease_renewals, MARGINS.lease_renewal_seconds)
        pause = period
        while not self._stop.wait(pause * (0.75 + self._parts.jitter() / 2)):
            if not worker.is_alive():
                return
            try:
                self.renew()
                pause = period
            except LeaseLostError:
                self._lose()
                return
            except Exception:  # not renewed: the deadline decides, at the next check or here
                pause = period * _SOONER
                if self._clock.boot() >= self._deadline:
                    self._lose()
                    return

    def _ours(self) -> tuple[LeaseRecord, str] | None:
        """What stands there with its token, if it is held and a write of ours, whichever; None if it is not."""
        if (answer := self._register.read()) is None:
            return None
        try:
            found = LeaseRecord.loads(answer[0])
        except ValueError:
            return None
        return (found, answer[1]) if found.state is LeaseState.HELD and self.owns(found) else None

    def _lose(self) -> None:
        if not self.lost.is_set():
            self.lost.set()
            self._parts.counts.add(LOST)

    def _halt(self) -> None:
        self._stop.set()
        if self._renewer is not None and self._renewer is not threading.current_thread():
            self._renewer.join(timeout=5)
