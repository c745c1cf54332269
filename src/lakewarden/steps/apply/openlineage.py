"""Runs as OpenLineage events: START, and COMPLETE, FAIL or ABORT, with the tables that they work on.

Telling is a courtesy: whatever the endpoint does, the run goes on, and is over when it is over.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from queue import SimpleQueue
from typing import Any

from lakewarden.logs import logger
from lakewarden.model.actor import Actor
from lakewarden.model.clock import Clock
from lakewarden.model.errors import LakewardenError
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.redaction import redact
from lakewarden.model.run import RunResult, RunStatus
from lakewarden.model.table import catalog_of, name_within

PRODUCER = f"urn:lakewarden:{version('lakewarden')}"
# An event names so many tables; the run's own facet says how many there are.
MOST_TABLES = 1000
# How long an endpoint that did not answer is told nothing.
SECONDS_ALONE = 300.0
# What these jobs make is in the state: no table is different afterwards.
LOOKING = (Job.HISTORY, Job.LINEAGE_CHECK)

_log = logger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """Where events go, and as whose: `namespace` is of our jobs."""

    url: str
    namespace: str
    api_key: str | None
    timeout: float

    def post(self, event: Any) -> None:
        """Raises whatever goes wrong."""
        from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

        key = ApiKeyTokenProvider({"apiKey": self.api_key}) if self.api_key else TokenProvider({})
        # No second try: events come one after the other, and the run waits for the last of them.
        config = HttpConfig(url=f"{self.url}/", timeout=self.timeout, retry={"total": 0}, auth=key)
        HttpTransport(config).emit(event)


class _Poster:
    """Posts one after the other, in a thread that nobody waits for at the end of the process."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Callable[[], None], threading.Event]] = SimpleQueue()
        threading.Thread(target=self._go_on, name="openlineage", daemon=True).start()

    def post(self, work: Callable[[], None]) -> threading.Event:
        """What is set once that is done."""
        over = threading.Event()
        self._work.put((work, over))
        return over

    def _go_on(self) -> None:
        while True:
            work, over = self._work.get()
            work()
            over.set()


@dataclass
class RunEvents:
    """Tells an endpoint of runs, by a thread of its own. One that does not answer is left alone for a while."""

    endpoint: Endpoint
    clock: Clock
    _poster: _Poster | None = field(init=False, default=None)
    _not_before: float = field(init=False, default=0.0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    @contextmanager
    def telling(self, run_id: str, plan: Plan, actor: Actor) -> Iterator[list[RunResult]]:
        """A run from its start to its end; its result is put into the list."""
        told = [self._tell("START", run_id, plan, actor)]
        done: list[RunResult] = []
        try:
            yield done
        except BaseException as error:
            failed = isinstance(error, LakewardenError)
            told.append(self._tell("FAIL" if failed else "ABORT", run_id, plan, actor, error=error))
            raise
        else:
            result = done[0] if done else None
            kind = "FAIL" if result is not None and result.status == RunStatus.FAILED else "COMPLETE"
            told.append(self._tell(kind, run_id, plan, actor, result))
        finally:
            until = time.monotonic() + self.endpoint.timeout
            if not all(over.wait(max(0.0, until - time.monotonic())) for over in told):
                self._leave_alone("OpenLineage was not told in time", run_id=run_id)

    def _tell(
        self,
        kind: str,
        run_id: str,
        plan: Plan,
        actor: Actor,
        result: RunResult | None = None,
        error: BaseException | None = None,
    ) -> threading.Event:
        at = self.clock.now()

        def post() -> None:
            if self._is_left_alone():
                return
            try:
                self.endpoint.post(event_of(kind, at, self.endpoint.namespace, run_id, plan, actor, result, error))
            except Exception as problem:
                said = {"run_id": run_id, "kind": kind, "error": redact(f"{type(problem).__name__}: {problem}")}
                if getattr(problem, "response", None) is not None:
                    _log.warning("OpenLineage was not told", **said)  # It answered: the next event may be taken.
                else:
                    self._leave_alone("OpenLineage was not told", **said)

        with self._lock:
            self._poster = self._poster or _Poster()
            return self._poster.post(post)

    def _is_left_alone(self) -> bool:
        with self._lock:
            return self.clock.boot() < self._not_before

    def _leave_alone(self, words: str, **said: object) -> None:
        """Tell nothing for a while, and say so once: a night would else wait for it at every run."""
        with self._lock:
            if self.clock.boot() < self._not_before:
                return
            self._not_before = self.clock.boot() + SECONDS_ALONE
            # Its thread may hang as long as the endpoint likes.
            self._poster = None
        _log.warning(words, **said)


def event_of(
    kind: str,
    at: datetime,
    namespace: str,
    run_id: str,
    plan: Plan,
    actor: Actor,
    result: RunResult | None = None,
    error: BaseException | None = None,
) -> Any:
    """One RunEvent. Tables are datasets: their catalog is the namespace, their metadata the version."""
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import error_message_run, job_type_job

    facets: dict[str, Any] = {"lakewarden": _facet(run_id, plan, actor, result)}
    if error is not None:
        words = str(redact(f"{getattr(error, 'code', type(error).__name__)} {getattr(error, 'message', error)}"))
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(words, "python", producer=PRODUCER)
    changing = [table for table in plan.tables if table.refusal is None and any(table.changes.values())][:MOST_TABLES]
    failed = {one.uri for one in result.failed} if result is not None else frozenset()
    written = [table for table in changing if table.identifier not in failed]
    if kind == "FAIL" or plan.job in LOOKING:
        written = []
    job_type = job_type_job.JobTypeJobFacet("BATCH", "LAKEWARDEN", "MAINTENANCE", producer=PRODUCER)
    return RunEvent(
        eventType=RunState(kind),
        eventTime=at.isoformat(),
        producer=PRODUCER,
        run=Run(str(uuid.uuid5(uuid.NAMESPACE_URL, f"lakewarden:{run_id}")), facets),
        job=Job(namespace, plan.job, {"jobType": job_type}),
        inputs=_datasets(InputDataset, changing),
        outputs=_datasets(OutputDataset, written),
    )


def _datasets(kind: Any, tables: Sequence[TablePlan]) -> list[Any]:
    from openlineage.client.facet_v2 import dataset_version_dataset

    def facets(table: TablePlan) -> dict[str, Any]:
        return {
            "version": dataset_version_dataset.DatasetVersionDatasetFacet(table.metadata_location, producer=PRODUCER)
        }

    return [kind(catalog_of(table.identifier), name_within(table.identifier), facets=facets(table)) for table in tables]


def _facet(run_id: str, plan: Plan, actor: Actor, result: RunResult | None) -> Any:
    """What OpenLineage has no words for: who asked and why, and what was changed and deleted."""
    import attr
    from openlineage.client.facet_v2 import RunFacet

    said: dict[str, Any] = {
        "run": run_id,
        "plan": plan.plan_id,
        "worker": actor.worker,
        "operator": actor.operator,
        "trigger": str(actor.trigger),
        "ticket": actor.ticket or "",
        "tables": len(plan.tables),
    }
    if result is not None:
        document = result.as_json()
        said |= {name: document[name] for name in ("status", "changed", "deleted", "quarantined")}
        said["failed"] = result.failures
    made: Any = attr.make_class(
        "LakewardenRunFacet", {name: attr.ib() for name in said}, bases=(RunFacet,), kw_only=True
    )
    return made(**said, producer=PRODUCER)
