"""What a Warden is made of: the parts by name, whoever builds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.leases import Leases
from lakewarden.model.clock import Clock
from lakewarden.reports.check import Question
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.stores import Stores


class Parts(Protocol):
    """The parts that a Warden works with, each built when first asked for: `runs` waits for no store, `show` for no catalog."""

    @property
    def deployment(self) -> Deployment: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def stores(self) -> Stores: ...

    def questions(self, spark: bool, seconds: float) -> Sequence[Question]: ...

    @property
    def clock(self) -> Clock: ...

    def close(self) -> None: ...
