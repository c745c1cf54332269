"""The parts a job works with, built once by the wiring and passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.leases import Leases
from lakewarden.model.clock import Clock
from lakewarden.model.errors import Refusal
from lakewarden.model.expiry import Expirer
from lakewarden.model.manifests import ManifestRewriter
from lakewarden.model.partitions import PartitionExpirer
from lakewarden.model.ports import Catalog, Reader
from lakewarden.model.tiers import Relocator
from lakewarden.storage.stores import Stores

if TYPE_CHECKING:
    from lakewarden.pipeline.spark.session import SparkSession


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


class WarmSpark(Protocol):
    def __call__(self, packages: Sequence[str] = ()) -> Future[SparkSession]: ...


@dataclass(frozen=True)
class Deployment:
    """Everything with an effect, in one place: nothing in jobs/ opens a store, a clock or a session by itself."""

    catalogs: tuple[Catalog, ...]
    readers: Mapping[str, Reader]
    expirers: Mapping[str, Expirer]
    partition_expirers: Mapping[str, PartitionExpirer]
    manifest_rewriters: Mapping[str, ManifestRewriter]
    relocators: Mapping[str, Relocator]
    stores: Stores
    ledger: Ledger
    leases: Leases
    clock: Clock
    new_id: Callable[[], str]
    worker: str
    state: str
    policy_for: PolicyFor
    warm_spark: WarmSpark
    inventory: Mapping[str, str]
