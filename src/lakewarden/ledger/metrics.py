"""The sums behind `/metrics`, read in one view: rows that were counted as runs ended, and nothing that grows with runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.counting import add
from lakewarden.ledger.metric_tables import counts, standings
from lakewarden.ledger.schema import journal, runs
from lakewarden.ledger.statuses import INTENT
from lakewarden.model.metrics import CONFLICTS, DRILL_FAILURES, DRILLED, LOST, OPEN_INTENTS, Sample

Labels = tuple[str, ...]


class Standing(NamedTuple):
    """What the newest plans of one job saw of the tables of one tenant and format."""

    job: str
    format: str
    tenant: str
    reclaimable: int
    listed: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Everything that was counted until now: sums by name and values of labels, and the tables' standing."""

    sums: Mapping[tuple[str, Labels], float]
    standings: tuple[Standing, ...]


class Metrics:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def read(self) -> Counted:
        """What was counted, and the batches that are open in this moment."""
        total = [func.sum(standings.c.reclaimable), func.sum(standings.c.listed)]
        groups = [standings.c.job, standings.c.format, standings.c.tenant]
        with self._connections.read() as connection:
            sums = {(row.name, tuple(json.loads(row.labels))): row.value for row in connection.execute(select(counts))}
            found = connection.execute(select(*groups, *total).group_by(*groups).order_by(*groups)).all()
            still_open = _open_intents(connection)
        key = (OPEN_INTENTS.name, ())
        sums[key] = sums.get(key, 0.0) + still_open
        return Counted(sums, tuple(Standing(job, form, who, int(a), int(b)) for job, form, who, a, b in found))

    def add_leases(self, more: Mapping[str, int]) -> None:
        """Add what a process met with leases, by the names of the metrics."""
        known = {metric.name: metric for metric in (CONFLICTS, LOST)}
        with self._connections.write() as connection:
            add(connection, [Sample(known[name], count) for name, count in more.items() if name in known])

    def drilled(self, place: str, *, came_back: bool) -> None:
        """Count a restore drill: when something came back last, or once more that it did not."""
        labels = (place,)
        with self._connections.write() as connection:
            if came_back:
                when = self._connections.clock.now().timestamp()
                put(connection, counts, [{"name": DRILLED.name, "labels": json.dumps(labels), "value": when}])
                add(connection, [Sample(DRILL_FAILURES, 0, labels)])
            else:
                add(connection, [Sample(DRILL_FAILURES, 1, labels)])


def _open_intents(connection: Connection) -> int:
    """Batches without an outcome, of runs that are not closed. Those of closed runs were counted when they were."""
    closing = journal.alias()
    closed = (closing.c.run_id == journal.c.run_id) & (closing.c.batch_no == journal.c.batch_no)
    has_outcome = select(closing.c.seq).where(closed, closing.c.kind != INTENT).exists()
    at_work = select(runs.c.run_id).where(runs.c.finished_at.is_(None))
    query = select(func.count()).select_from(journal)
    query = query.where(journal.c.run_id.in_(at_work), journal.c.kind == INTENT, ~has_outcome)
    return int(connection.execute(query).scalar_one())
