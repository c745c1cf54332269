"""The runner: takes requests up, one at a time, says that it is at work, and ends when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from lakewarden import logs
from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.requests import MOST_TAKEOVERS, Ended, Request, error_values
from lakewarden.model.errors import (
    AbandonedRequestError,
    CancelledError,
    LakewardenError,
    LeaseHeldError,
    SparkFailedError,
    StateBusyError,
    StateError,
)
from lakewarden.model.policy import Job
from lakewarden.model.ports import unheard
from lakewarden.model.run import RunResult
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.model.stop import Stopped, StopToken
from lakewarden.model.webhooks import of_error
from lakewarden.night.enabled import selected_states
from lakewarden.night.jars import jars_for, may_need_jars
from lakewarden.night.one_job import Asked
from lakewarden.pipeline.spark.session import is_gone, runs_without
from lakewarden.service.runner.execute import CHANGING, Execution
from lakewarden.service.runner.quiet import QuietMoments
from lakewarden.service.runner.told import Told
from lakewarden.service.schedule.held import held_jobs
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment
from lakewarden.warden import Warden

_log = logs.logger(__name__)
BEAT_SECONDS = 5.0
LEASE_PAUSE = timedelta(seconds=10)
# How long the end of a request waits for a database that is away, and how often it is tried. Afterwards whoever has the
# database again takes the request over.
END_SECONDS, PAUSE_SECONDS = 600.0, 2.0
AWAY_PAUSE = timedelta(seconds=30)
AWAY = (StateError.code, StateBusyError.code)
NAMED_BY_USER = frozenset({"spark.jars", "spark.jars.packages"})
AFTER = {str(spec.name): [str(job) for job in spec.after] for spec in JOBS.values()}


class Ending(Stopped):
    """The runner was told to end; what it was at is given back."""


class Cancelled(Stopped):
    """Somebody cancelled the request."""


class Lost(Stopped):
    """Another runner has the request by now."""


class NeedsJars(Stopped):
    """The request needs a Spark that starts with other jars than this one's, and so another process."""


@dataclass
class Runner:
    """One worker of the service. `work_once` is called by one thread; `end` may be called by any."""

    deployment: Deployment
    settings: Settings
    warden: Warden
    name: str
    beat_seconds: float = BEAT_SECONDS
    spark_is_gone: Callable[[], bool] = is_gone
    spark_runs_without: Callable[[Sequence[str]], bool] = runs_without
    _ending: bool = False
    _stop: StopToken | None = None
    _has_jars: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _quiet: QuietMoments = field(init=False)

    def __post_init__(self) -> None:
        self._quiet = QuietMoments(self.deployment.ledger, self.settings.service, self.deployment.clock)

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
            ledger = self.deployment.ledger
            held = held_jobs(self.settings, ledger.switches.frozen(), self.deployment.clock.now())
            request = ledger.requests.claim(self.name, AFTER, held)
            if request is not None:
                self._work(request, stop)
            else:
                self._quiet.use()
            return request
        finally:
            with self._lock:
                self._stop = None

    def _work(self, request: Request, stop: StopToken) -> None:
        told = Told(self.deployment.ledger.requests, request.request_id)
        told.event("taken up", {"by": self.name, "takeovers": request.takeovers})
        log = _log.bind(request=request.request_id, kind=str(request.kind), job=request.job)
        log.info("request begins")
        if (over := _over_already(request)) is not None:
            self._finish(request, over)
            return
        execution = Execution(self.deployment, self.settings, self.warden, request, self.name, told, stop)
        try:
            with self._beating(request, stop):
                self._start_with_jars(request)
                ended = execution.ended()
        except NeedsJars as stopped:
            self.end()
            self._give_back(request, told, stopped.message)
            return
        except (Ending, Lost) as stopped:
            self._give_back(request, told, stopped.message)
            return
        except Cancelled as stopped:
            ended = _cancelled(stopped.message)
        except Exception as error:
            log.error("unexpected", error=f"{type(error).__name__}: {error}")
            told_of = LakewardenError(f"unexpected {type(error).__name__}: {error}")
            ended = Ended(RequestStatus.FAILED, error=error_values(told_of))
        why = ended.error or {"code": "", "message": ""}
        if request.takeovers and why["code"] == LeaseHeldError.code:
            # The runner before this one lives, and will stop: it has heard, or hears soon, that the request is not its own.
            self._give_back(request, told, why["message"], pause=LEASE_PAUSE)
            return
        again = request.takeovers < MOST_TAKEOVERS
        if self._must_begin_anew(ended):
            self.end()
            if again:
                # The next runner has a Spark of its own: the request is not over.
                self._give_back(request, told, "Spark died", died=True)
                return
        if again and why["code"] in AWAY:
            # What was begun goes on once the database is back; a job of the schedule would else wait for another day.
            self._give_back(request, told, why["message"], died=True, pause=AWAY_PAUSE)
            return
        self._finish(request, ended)

    def _give_back(
        self, request: Request, told: Told, why: str, *, died: bool = False, pause: timedelta = timedelta()
    ) -> None:
        """Leave the request to another runner; one that another has already is theirs alone to tell of."""

        def give_back() -> bool:
            return self.deployment.ledger.requests.give_back(request.request_id, self.name, died=died, pause=pause)

        if self._surely(give_back):
            told.event("given back", {"why": why})

    def _start_with_jars(self, request: Request) -> None:
        """A runner has one Spark for all its requests: before the first one, it starts with what any job may need of it.

        Raises NeedsJars where that was too little: for a plan that somebody chose although its job is a `dry_run`, or a
        table that came later.
        """
        asked = JOBS[Job(request.job)] if request.kind in CHANGING and request.job else None
        needs = asked is not None and bool(asked.packages(("",)))
        if self._has_jars and not needs:
            return
        if not (needs or may_need_jars(self.settings, JOBS.values())):
            return
        with suppress(LakewardenError):  # The request itself will tell what is wrong; the next one tries again.
            states = selected_states(self.deployment, Asked(self.warden.actor(), unheard))
            found = dict.fromkeys(jars_for(self.deployment, JOBS.values(), states, enabled_only=False))
            if asked is not None and request.kind is RequestKind.APPLY:
                found |= dict.fromkeys(asked.packages([state.metadata_location for state in states]))
            self._has_jars = True
            if found and not NAMED_BY_USER & self.settings.spark.conf_strings.keys():
                if self.spark_runs_without(tuple(found)):
                    raise NeedsJars("Spark starts anew, with jars that this needs")
                self.deployment.warm_spark(tuple(found))

    def _must_begin_anew(self, ended: Ended) -> bool:
        """Whether Spark died under the request. A process has one Spark: another one needs another process."""
        failed = ended.error is not None and str(ended.error.get("code", "")).startswith(SparkFailedError.code[:8])
        return self.spark_is_gone() and failed

    def _finish(self, request: Request, ended: Ended) -> None:
        ledger, told = self.deployment.ledger, (str(ended.status), {"error": ended.error} if ended.error else None)
        if not self._surely(lambda: ledger.requests.finish(request.request_id, self.name, ended, told)):
            _log.warning("request was taken over", request=request.request_id)
            return
        if ended.error is not None and ended.run_id is None:
            # What became a run has told of itself.
            why, named = ended.error, {"request_id": request.request_id, "job": request.job}
            told_of = of_error(request.request_id, why["code"], why["message"], str(ended.status), **named)
            ledger.outbox.add([told_of])
        if request.job is not None:
            ledger.schedules.ended(request.job, request.request_id, str(ended.status), quiet=_had_nothing_to_do(ended))

    def _surely(self, write: Callable[[], bool]) -> bool:
        """Write what came of a request, also where the database is away for a while: it would else be marked as running,
        and be done again. Raises StateError where that lasts, or the runner has to end."""
        until = time.monotonic() + END_SECONDS
        while True:
            try:
                return write()
            except StateError as error:
                if self._ending or time.monotonic() >= until:
                    raise
                _log.warning("the end of a request waits for the state database", code=error.code)
                time.sleep(PAUSE_SECONDS)

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


def _over_already(request: Request) -> Ended | None:
    """What is said of a request that is not begun: it was cancelled before its last runner heard of it, or nobody survives it."""
    if request.cancel_asked_at is not None:
        return _cancelled(f"request {request.request_id} was cancelled")
    if request.is_deadly:
        error = AbandonedRequestError(
            f"{request.takeovers} runners took request {request.request_id} up and died over it; it was given up"
        )
        return Ended(RequestStatus.FAILED, error=error_values(error))
    return None


def _cancelled(why: str) -> Ended:
    error = CancelledError(f"{why}; what was done before is in the journal")
    return Ended(RequestStatus.CANCELLED, error=error_values(error))


def _had_nothing_to_do(ended: Ended) -> bool:
    if ended.status is not RequestStatus.DONE or not ended.result or "run_id" not in ended.result:
        return False
    result = RunResult.of(ended.result)
    return not any(result.changed.values()) and not any(result.planned.values())
