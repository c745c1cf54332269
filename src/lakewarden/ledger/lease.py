"""A held lease: renewed in the background while its work lives, lost in time when it cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from lakewarden.model.clock import Clock
from lakewarden.model.errors import LeaseLostError, StoreUnavailableError
from lakewarden.model.lease import LeaseRecord
from lakewarden.model.margins import MARGINS
from lakewarden.storage.cas import Ambiguous, Conflict, Register

_RENEW_TRIES = 4


class Lease:
    """Use as a context manager: entering starts the renewal, leaving stops it and releases.

    `lost` is set as soon as the lease is known to be taken, or two thirds of its time went by without a
    renewal: a third before anybody else may take it. Work must stop then.
    """

    def __init__(
        self,
        register: Register,
        record: LeaseRecord,
        token: str,
        clock: Clock,
        written_at: float,
        nonce: Callable[[], str],
        jitter: Callable[[], float],
        unreleased: Callable[[Lease], None] = lambda _: None,
    ) -> None:
        self._register = register
        self._record = record
        self._token = token
        self._clock = clock
        self._nonce = nonce
        self._jitter = jitter
        self._deadline = written_at + record.ttl_seconds * MARGINS.lease_work_share
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None
        self._released = False
        self._unreleased = unreleased
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

    def check(self) -> None:
        """Raises LeaseLostError unless the lease is ours by our own clock. Asks no store."""
        if self._clock.boot() >= self._deadline:
            self.lost.set()
        if self.lost.is_set() or self._released:
            raise LeaseLostError(f"the lease {self.key} (epoch {self.epoch}) is not held any more")

    def renew(self) -> None:
        """One renewal. Raises LeaseLostError if another holder is there, StoreUnavailableError if it is not known."""
        with self._turn:
            self.check()
            record, token = self._record.renewed(self._nonce(), self._clock.now()), self._token

            def attempt() -> None:
                nonlocal record, token
                before = self._clock.boot()
                try:
                    self._token = self._register.write(record.dumps(), token)
                except (Conflict, Ambiguous):
                    # The next attempt is made on top of what is there, if that is a write of ours.
                    token = self._found(record)
                    record = record.renewed(self._nonce(), self._clock.now())
                    raise
                self._record = record
                self._deadline = before + record.ttl_seconds * MARGINS.lease_work_share

            unclear = retry_if_exception_type((Conflict, Ambiguous))
            try:
                Retrying(retry=unclear, stop=stop_after_attempt(_RENEW_TRIES), reraise=True)(attempt)
            except (Conflict, Ambiguous) as error:
                raise StoreUnavailableError(f"the lease {self.key} could not be renewed") from error

    def release(self) -> None:
        """Write the tombstone, which keeps the epoch. A failure is harmless: the lease runs out by itself."""
        self._halt()
        with self._turn:
            if self._released:
                return
            self._released = True
        # A lease that was lost may still stand there as ours, and nobody works under it any more.
        if self.lost.is_set() or not self.release_again():
            self._unreleased(self)

    def release_again(self) -> bool:
        """Write the tombstone of a lease that was let go and not heard of; whether nothing is left to be released."""
        record = self._record.released(self._nonce(), self._clock.now())
        try:
            self._register.write(record.dumps(), self._token)
        except Conflict:
            return True  # it is somebody else's by now, or is released
        except StoreUnavailableError:
            return False
        return True

    def __enter__(self) -> Lease:
        self._renewer = threading.Thread(
            target=self._keep, args=(threading.current_thread(),), name=f"lease {self.key}", daemon=True
        )
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _keep(self, worker: threading.Thread) -> None:
        """Renew until stopped, lost, or the thread whose work this is has ended: dead work must not keep a lease."""
        period = self._record.ttl_seconds / MARGINS.lease_renewals
        while not self._stop.wait(period * (0.75 + self._jitter() / 2)):
            if not worker.is_alive():
                return
            try:
                self.renew()
            except LeaseLostError:
                self.lost.set()
                return
            except Exception:  # not renewed: the deadline decides, at the next check or here
                if self._clock.boot() >= self._deadline:
                    self.lost.set()
                    return

    def _found(self, attempt: LeaseRecord) -> str:
        """The token to write on after an unclear write, if the register still holds a write of ours."""
        answer = self._register.read()
        if answer is not None:
            try:
                found = LeaseRecord.loads(answer[0])
            except ValueError:
                found = None
            if found is not None and found.nonce in (attempt.nonce, self._record.nonce):
                return answer[1]
        self.lost.set()
        raise LeaseLostError(f"the lease {self.key} (epoch {self.epoch}) was taken or released by somebody else")

    def _halt(self) -> None:
        self._stop.set()
        if self._renewer is not None and self._renewer is not threading.current_thread():
            self._renewer.join(timeout=5)
