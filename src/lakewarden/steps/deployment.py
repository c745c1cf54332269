"""The parts a job works with, built once by the wiring and passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.leases import Leases
from lakewarden.model.actor import Actor
from lakewarden.model.clock import Clock
from lakewarden.model.cost import Cost
from lakewarden.model.errors import PlanOutdatedError, Refusal
from lakewarden.model.format import Format
from lakewarden.model.lineage import Requirements
from lakewarden.model.plan import Plan
from lakewarden.model.ports import Progress, Reader
from lakewarden.model.run import RunResult
from lakewarden.model.stop import StopToken
from lakewarden.model.table import catalog_of
from lakewarden.pipeline.spark.work import SparkWork, Starting
from lakewarden.storage.stores import Stores

T = TypeVar("T")


class PolicyInEffect(Protocol):
    """One job's values for one table, and the reason to leave it alone if they cannot be trusted."""

    @property
    def values(self) -> Mapping[str, Any]: ...

    @property
    def refusal(self) -> Refusal | None: ...


class PolicyFor(Protocol):
    def __call__(
        self,
        job: str,
        identifier: str,
        table_properties: Mapping[str, str],
        *,
        uuid: str,
        unsafe_short_grace: Collection[str],
    ) -> PolicyInEffect: ...


class RequirementsFor(Protocol):
    def __call__(self, identifier: str, table_properties: Mapping[str, str]) -> Requirements: ...


class RunEvents(Protocol):
    """Who is told of runs."""

    def telling(self, run_id: str, plan: Plan, actor: Actor) -> AbstractContextManager[list[RunResult]]: ...


class WarmSpark(Protocol):
    def __call__(
        self, packages: Sequence[str] = (), progress: Progress | None = None, written: Sequence[str] = ()
    ) -> Starting: ...


@dataclass(frozen=True)
class Deployment:
    """Everything with an effect, in one place: nothing in jobs/ opens a store, a clock or a session by itself.

    `formats` has one Format for each configured catalog, by the catalog's name.
    """

    formats: Mapping[str, Format]
    stores: Stores
    ledger: Ledger
    leases: Leases
    clock: Clock
    new_id: Callable[[], str]
    worker: str
    state: str
    policy_for: PolicyFor
    requirements_for: RequirementsFor
    warm_spark: WarmSpark
    inventory: Mapping[str, str]
    cost: Cost = field(default_factory=Cost)
    on_cluster: bool = False
    events: RunEvents | None = None

    def format_of(self, identifier: str) -> Format:
        """The Format whose catalog holds a table. Raises PlanOutdatedError if no catalog of that name is configured."""
        found = self.formats.get(catalog_of(identifier))
        if found is None:
            raise PlanOutdatedError(f"no configured catalog holds {identifier}; nothing was done")
        return found

    def waiting(self, wait: float | None) -> Deployment:
        """The same, for whoever waits so many seconds for a lease that is held. None: as the deployment does anyway."""
        return self if wait is None else replace(self, leases=self.leases.waiting(wait))

    def telling(self, progress: Progress) -> Deployment:
        """The same, for whoever wants to know that Spark is starting."""
        return replace(self, warm_spark=partial(self.warm_spark, progress=progress))

    def planning_in(self, directory: str) -> Deployment:
        """The same, whose tasks write their part of a plan into this directory: executors must see it."""
        return replace(self, warm_spark=partial(self.warm_spark, written=(directory,)))

    @contextmanager
    def stopped_by(self, stop: StopToken) -> Iterator[Deployment]:
        """The same, for work of this thread that changes nothing: once a stop is requested, its Spark jobs are ended."""
        work = SparkWork()
        with stop.interrupting(work.cancel), work.joined():
            yield replace(self, warm_spark=partial(work.warming, self.warm_spark))

    @property
    def readers(self) -> Mapping[str, Reader]:
        """How each format's files are read, by the format's name: what tasks carry to executors."""
        return {found.format: found.reader for found in self.formats.values()}


def required(ability: T | None, identifier: str) -> T:
    """What a run needs its table's format to do. Raises PlanOutdatedError if it cannot: the plan saw another format."""
    if ability is None:
        raise PlanOutdatedError(
            f"the catalog of {identifier} has another format than when the plan was made; nothing was done"
        )
    return ability
