"""The runner: takes requests up, one at a time, says that it is at work, and ends when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakewarden import logs
from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.requests import MOST_TAKEOVERS, Ended, Request, error_values
from lakewarden.model.errors import CancelledError, LakewardenError, SparkFailedError, StateError
from lakewarden.model.run import RunResult
from lakewarden.model.service import RequestStatus
from lakewarden.model.stop import Stopped, StopToken
from lakewarden.model.webhooks import of_error
from lakewarden.pipeline.spark.session import is_gone
from lakewarden.service.runner.execute import Execution
from lakewarden.service.runner.told import Told
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment
from lakewarden.warden import Warden

_log = logs.logger(__name__)
BEAT_SECONDS = 5.0
AFTER = {str(spec.name): [str(job) for job in spec.after] for spec in JOBS.values()}


class Ending(Stopped):
    """The runner was told to end; what it was at is given back."""


class Cancelled(Stopped):
    """Somebody cancelled the request."""


class Lost(Stopped):
    """Another runner has the request by now."""


@dataclass
class Runner:
    """One worker of the service. `work_once` is called by one thread; `end` may be called by any."""

    deployment: Deployment
    settings: Settings
    warden: Warden
    name: str
    beat_seconds: float = BEAT_SECONDS
    spark_is_gone: Callable[[], bool] = is_gone
    _ending: bool = False
    _stop: StopToken | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self) -> None:
        """Take nothing up any more, and let what is at work end between two batches."""
        with self._lock:
            self._ending = True
            stop = self._stop
        if stop is not None:
            stop.request(Ending("the service is ending"))

    @property
    def has_ended(self) -> bool:
        return self._ending

    def work_once(self) -> Request | None:
        """Take up one request and bring it to its end; None where nothing is to be done."""
        stop = StopToken()
        with self._lock:
            if self._ending:
                return None
            self._stop = stop
        try:
            request = self.deployment.ledger.requests.claim(self.name, AFTER)
            if request is not None:
                self._work(request, stop)
            return request
        finally:
            with self._lock:
                self._stop = None

    def _work(self, request: Request, stop: StopToken) -> None:
        ledger, told = self.deployment.ledger, Told(self.deployment.ledger.requests, request.request_id)
        told.event("taken up", {"by": self.name, "takeovers": request.takeovers})
        log = _log.bind(request=request.request_id, kind=str(request.kind), job=request.job)
        log.info("request begins")
        execution = Execution(self.deployment, self.settings, self.warden, request, self.name, told, stop)
        try:
            with self._beating(request, stop):
                ended = execution.ended()
        except (Ending, Lost) as stopped:
            ledger.requests.give_back(request.request_id, self.name)
            told.event("given back", {"why": stopped.message})
            return
        except Cancelled as stopped:
            error = CancelledError(f"{stopped.message}; what was done before is in the journal")
            ended = Ended(RequestStatus.CANCELLED, error=error_values(error))
        except Exception as error:
            log.error("unexpected", error=f"{type(error).__name__}: {error}")
            told_of = LakewardenError(f"unexpected {type(error).__name__}: {error}")
            ended = Ended(RequestStatus.FAILED, error=error_values(told_of))
        if self._must_begin_anew(ended):
            self.end()
            if request.takeovers < MOST_TAKEOVERS:
                # The next runner has a Spark of its own: the request is not over.
                ledger.requests.give_back(request.request_id, self.name, died=True)
                told.event("given back", {"why": "Spark died"})
                return
        self._finish(request, ended, told)

    def _must_begin_anew(self, ended: Ended) -> bool:
        """Whether Spark died under the request. A process has one Spark: another one needs another process."""
        failed = ended.error is not None and str(ended.error.get("code", "")).startswith(SparkFailedError.code[:8])
        return self.spark_is_gone() and failed

    def _finish(self, request: Request, ended: Ended, told: Told) -> None:
        told.event(str(ended.status), {"error": ended.error} if ended.error else None)
        ledger = self.deployment.ledger
        if not ledger.requests.finish(request.request_id, self.name, ended):
            _log.warning("request was taken over", request=request.request_id)
            return
        if ended.error is not None and ended.run_id is None:
            # What became a run has told of itself.
            why, named = ended.error, {"request_id": request.request_id, "job": request.job}
            told_of = of_error(request.request_id, why["code"], why["message"], str(ended.status), **named)
            ledger.outbox.add([told_of])
        if request.job is not None:
            ledger.schedules.ended(request.job, request.request_id, str(ended.status), quiet=_had_nothing_to_do(ended))

    @contextmanager
    def _beating(self, request: Request, stop: StopToken) -> Iterator[None]:
        """Says every few seconds that the request is worked on, and hears whether it is to be stopped."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self.beat_seconds):
                try:
                    found = self.deployment.ledger.requests.beat(request.request_id, self.name)
                except StateError as error:
                    # Leases protect what is changed; a database that is away for long lets another take over.
                    _log.warning("beat failed", request=request.request_id, code=error.code)
                    continue
                if not found.mine:
                    stop.request(Lost("another runner has this request by now"))
                elif found.cancel:
                    stop.request(Cancelled(f"request {request.request_id} was cancelled"))

        thread = threading.Thread(target=beat, name="beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _had_nothing_to_do(ended: Ended) -> bool:
    if ended.status is not RequestStatus.DONE or not ended.result or "run_id" not in ended.result:
        return False
    result = RunResult.of(ended.result)
    return not any(result.changed.values()) and not any(result.planned.values())
