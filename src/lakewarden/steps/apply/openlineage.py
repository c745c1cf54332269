"""Runs as OpenLineage events: START, and COMPLETE, FAIL or ABORT, with the tables that they work on.

Telling is a courtesy: whatever the endpoint does, the run goes on, and is over when it is over.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import Any

from lakewarden.logs import logger
from lakewarden.model.actor import Actor
from lakewarden.model.clock import Clock
from lakewarden.model.errors import LakewardenError
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.redaction import redact
from lakewarden.model.run import RunResult, RunStatus
from lakewarden.model.table import catalog_of, name_within

PRODUCER = f"urn:lakewarden:{version('lakewarden')}"
# An event names so many tables; the run's own facet says how many there are.
MOST_TABLES = 1000

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


@dataclass
class RunEvents:
    """Tells an endpoint of runs, by a thread of its own."""

    endpoint: Endpoint
    clock: Clock
    _thread: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="openlineage")

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
            if wait(told, self.endpoint.timeout).not_done:
                _log.warning("OpenLineage was not told in time", run_id=run_id)

    def _tell(
        self,
        kind: str,
        run_id: str,
        plan: Plan,
        actor: Actor,
        result: RunResult | None = None,
        error: BaseException | None = None,
    ) -> Future[None]:
        at = self.clock.now()

        def post() -> None:
            try:
                self.endpoint.post(event_of(kind, at, self.endpoint.namespace, run_id, plan, actor, result, error))
            except Exception as problem:
                words = redact(f"{type(problem).__name__}: {problem}")
                _log.warning("OpenLineage was not told", run_id=run_id, kind=kind, error=words)

        return self._thread.submit(post)


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
    written = [table for table in changing if table.identifier not in failed] if kind != "FAIL" else []
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
        said["failed"] = len(result.failed)
    made: Any = attr.make_class(
        "LakewardenRunFacet", {name: attr.ib() for name in said}, bases=(RunFacet,), kw_only=True
    )
    return made(**said, producer=PRODUCER)
