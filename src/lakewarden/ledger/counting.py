"""Metrics, counted in the transaction that ends a run or saves a plan: each is counted once, whoever dies."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain

from sqlalchemy import Connection, delete, select, update

from lakewarden.ledger.connection import add_up, chunks, put
from lakewarden.ledger.metric_tables import counts, standings
from lakewarden.ledger.schema import journal, runs, steps
from lakewarden.ledger.statuses import FAILED, INTENT, OUTCOME, STOPPED, WASTED
from lakewarden.model import metrics
from lakewarden.model.metrics import MetricKind, Sample
from lakewarden.model.plan import Plan
from lakewarden.model.verdict import Outcome

BUCKET, SUM, COUNT = "_bucket", "_sum", "_count"
INFINITE = "+Inf"
_AT_ONCE = 500


def add(connection: Connection, samples: Iterable[Sample]) -> None:
    """Add to the sums. In one order, so that two that add at the same moment never wait for each other in a circle."""
    found: Counter[tuple[str, str]] = Counter()
    for name, labels, value in chain.from_iterable(map(_rows, samples)):
        found[name, json.dumps(labels)] += value  # type: ignore[assignment]
    rows = [{"name": name, "labels": labels, "value": float(found[name, labels])} for name, labels in sorted(found)]
    add_up(connection, counts, rows, "value")


def count_plan(connection: Connection, plan: Plan) -> None:
    """A plan that is saved for the first time."""
    add(connection, metrics.of_plan(plan))
    # A table that no catalog lists any more has nothing to reclaim; a plan knows of every table that there is.
    seen = connection.execute(select(standings.c.identifier).where(standings.c.job == plan.job)).scalars().all()
    for gone in chunks((name for name in seen if name not in plan.pointers), _AT_ONCE):
        connection.execute(delete(standings).where(standings.c.identifier.in_(gone)))
    if (unsaid := metrics.unsaid(plan)) is not None:
        put(connection, counts, [{"name": metrics.UNSAID.name, "labels": "[]", "value": float(unsaid)}])
    put(connection, standings, [asdict(found) | {"plan_id": plan.plan_id} for found in metrics.standings(plan)])


def count_run(connection: Connection, run_id: str) -> None:
    """A run that has just been closed."""
    run = connection.execute(select(runs).where(runs.c.run_id == run_id)).one()
    entries = select(journal.c.kind, journal.c.count.label("files"), journal.c.tallies).where(
        journal.c.run_id == run_id
    )
    batches, failed, announced, closed = [], 0, 0, 0
    for entry in connection.execute(entries):
        if entry.kind == INTENT:
            batches.append(entry.files)
            announced += 1
        elif entry.kind == OUTCOME:
            closed += 1
            failed += (entry.tallies or {}).get(Outcome.FAILED, [0])[0]
    told = select(steps.c.name, steps.c.detail).where(steps.c.run_id == run_id, steps.c.name.in_([FAILED, WASTED]))
    said = [(row.name, row.detail) for row in connection.execute(told) if isinstance(row.detail, dict)]
    ended = metrics.Ended(
        job=run.job,
        status=run.status,
        seconds=(run.finished_at - run.started_at).total_seconds(),
        result=run.result or {},
        batches=batches,
        failed_files=failed,
        wasted=sum(detail.get("bytes", 0) for name, detail in said if name == WASTED),
        ended_by=next((detail.get("code") for name, detail in said if name == FAILED), None),
    )
    add(connection, [*metrics.of_run(ended), Sample(metrics.OPEN_INTENTS, announced - closed)])
    if metrics.ended_well(run.status):
        when = run.finished_at.timestamp()
        put(connection, counts, [{"name": metrics.LAST_SUCCESS.name, "labels": json.dumps([run.job]), "value": when}])
        _reclaimed(connection, run.plan_id, (run.result or {}).get("looked_at", []))


def count_stop(connection: Connection, run_id: str) -> None:
    """An open run that is about to be marked as stopped; once, until it is at work again."""
    at_work = select(runs.c.job).where(runs.c.run_id == run_id, runs.c.finished_at.is_(None), runs.c.status != STOPPED)
    if (job := connection.execute(at_work).scalar()) is not None:
        add(connection, [metrics.of_stop(job)])


def _reclaimed(connection: Connection, plan_id: str | None, looked_at: list[str]) -> None:
    """What a run took that went through its plan to the end; tables that were only looked at have it still."""
    if plan_id is None:
        return
    mine = standings.c.plan_id == plan_id
    names = connection.execute(select(standings.c.identifier).where(mine)).scalars().all() if looked_at else []
    if not looked_at:
        connection.execute(update(standings).where(mine).values(reclaimable=0))
    for some in chunks(set(names).difference(looked_at), _AT_ONCE):
        connection.execute(update(standings).where(mine, standings.c.identifier.in_(some)).values(reclaimable=0))


def _rows(sample: Sample) -> Iterable[tuple[str, list[str], float]]:
    """The sums that a sample adds to: one, or of a histogram its bucket, its sum and its count."""
    name, labels = sample.metric.name, list(sample.labels)
    if sample.metric.kind is not MetricKind.HISTOGRAM:
        yield name, labels, sample.value
        return
    bounds = sample.metric.bounds
    place = bisect_left(bounds, sample.value)
    yield name + BUCKET, [*labels, repr(float(bounds[place])) if place < len(bounds) else INFINITE], 1
    yield name + SUM, labels, sample.value
    yield name + COUNT, labels, 1
