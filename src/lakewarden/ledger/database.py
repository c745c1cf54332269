"""The worker's memory, opened: one database, and a small part for each subject it remembers."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lakewarden.ledger.activity import Activity
from lakewarden.ledger.approvals import Approvals
from lakewarden.ledger.archives import Archives
from lakewarden.ledger.cache import Cache
from lakewarden.ledger.cold import Cold
from lakewarden.ledger.connection import Connections, connect
from lakewarden.ledger.fleet import FleetTables
from lakewarden.ledger.heartbeats import Heartbeats
from lakewarden.ledger.history import History
from lakewarden.ledger.journal import Journal
from lakewarden.ledger.known_tables import KnownTables
from lakewarden.ledger.metrics import Metrics
from lakewarden.ledger.migrate import migrate
from lakewarden.ledger.outbox import Outbox
from lakewarden.ledger.plans import Plans
from lakewarden.ledger.progress import Progress
from lakewarden.ledger.requests import Requests
from lakewarden.ledger.runs import Runs
from lakewarden.ledger.schedules import Schedules
from lakewarden.ledger.switches import Switches
from lakewarden.ledger.tokens import Tokens
from lakewarden.model.clock import Clock

if TYPE_CHECKING:
    from lakewarden.ledger.pending import Pending


class Ledger:
    """Everything the worker remembers. Safe from several threads; each call is one transaction."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.outbox = Outbox(connections)
        self.runs = Runs(connections, self.outbox)
        self.plans = Plans(connections, self.outbox)
        self.activity = Activity(connections)
        self.journal = Journal(connections)
        self.progress = Progress(connections)
        self.heartbeats = Heartbeats(connections)
        self.switches = Switches(connections)
        self.known_tables = KnownTables(connections)
        self.cache = Cache(connections)
        self.archives = Archives(connections)
        self.cold = Cold(connections)
        self.metrics = Metrics(connections)
        self.requests = Requests(connections)
        self.tokens = Tokens(connections)
        self.approvals = Approvals(connections)
        self.schedules = Schedules(connections)
        self.fleet = FleetTables(connections)
        self.history = History(connections)

    @cached_property
    def pending(self) -> Pending:
        """Its rows go through Arrow, which `runs` need not wait for."""
        from lakewarden.ledger.pending import Pending

        return Pending(self._connections)

    def now(self) -> datetime:
        """The moment by the clock that everything here is recorded with."""
        return self._connections.clock.now()

    def close(self) -> None:
        """Let go of the database's connections."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_ledger(url: str, clock: Clock) -> Ledger:
    """The ledger at `sqlite:///PATH` or `postgresql://…`, brought to the newest schema.

    Raises StateError when it is newer than this code, unreadable or unreachable; ConfigError for any other address.
    """
    connections = connect(url, clock)
    try:
        migrate(connections)
    except BaseException:
        connections.close()
        raise
    return Ledger(connections)
