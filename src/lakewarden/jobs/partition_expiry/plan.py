"""Partition expiry: which partitions are old enough to be dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakewarden.logs import bind
from lakewarden.model.brakes import DropSight, drop_brakes, refusal
from lakewarden.model.errors import Refusal, UnsupportedTableError
from lakewarden.model.partitions import Extent, PartitionExpiration, PartitionExpirer, PartitionFiles, PartitionLine
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job, PartitionPolicy
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import Holder, TableState
from lakewarden.pipeline.read.notes import note_refusal
from lakewarden.pipeline.read.partitions import Times, by_table
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.compare.compare import read_task
from lakewarden.steps.compare.findings import Findings, refusals_of
from lakewarden.steps.deployment import Deployment, required
from lakewarden.steps.in_spark import in_spark, seeing
from lakewarden.steps.observe.fleet import LOAD_THREADS, Fleet
from lakewarden.steps.plan.document import (
    Request,
    draw_up,
    planned_root,
    table_plan,
    to_change,
)

Policies = Mapping[str, PartitionPolicy]


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Observe the tables and write down which partitions would be dropped. Changes nothing."""
    log = bind(job=str(Job.PARTITION_EXPIRY))
    now = deployment.clock.now()
    session = deployment.warm_spark()

    progress("load tables", 0, 0)
    fleet, policies, chosen = to_change(deployment, request, Job.PARTITION_EXPIRY, PartitionPolicy.of, now)
    asked = dict(_asked(deployment, fleet, policies, chosen))

    progress("count", 0, 0)
    aging = {number: holder for number, holder in asked.items() if isinstance(holder, Holder)}
    wanted = ToRead.of(
        (
            (n, replace(fleet.states[n], manifest_lists=h.manifest_lists, manifests=(), files=()))
            for n, h in aging.items()
        ),
        fleet.homes,
    )
    times = {n: _expirer(deployment, fleet.states[n]).commit_times(fleet.states[n]) for n in aging}
    started = seeing(session, deployment.stores, (root.prefix for root in fleet.roots))
    partitions, notes = by_table(in_spark(lambda: _counted(started(), wanted, deployment, times)))

    progress("decide", 0, 0)
    found: dict[int, PartitionExpiration] = {}
    for number, answer in asked.items():
        if isinstance(answer, Refusal):
            found[number] = PartitionExpiration(refusal=answer)
        elif number in notes:
            found[number] = PartitionExpiration(refusal=note_refusal(notes[number]))
        elif answer is not None:
            found[number] = _survey(deployment, fleet.states[number], policies, partitions.get(number, []), now)

    progress("write the plan", 0, 0)
    tables, stopped = _tables(fleet, policies, chosen, found, partitions)
    changing = {table.identifier for table in tables if any(table.changes.values())}
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.PARTITION_EXPIRY,
        now,
        tables=tables,
        roots=tuple(planned_root(r, fleet, Findings()) for r in fleet.roots if changing.intersection(r.tables)),
        brakes=stopped,
    )
    log.info("plan written", plan=result.plan.plan_id, partitions=result.plan.totals()["changes"].get("partitions", 0))
    return result


def _counted(spark: Any, wanted: ToRead, deployment: Deployment, times: Times) -> Any:
    from lakewarden.pipeline.read.partition_counts import partitions_of

    return partitions_of(spark, wanted, read_task(deployment), times)


def _asked(
    deployment: Deployment, fleet: Fleet, policies: Policies, chosen: frozenset[str]
) -> Iterator[tuple[int, Holder | Refusal | None]]:
    """What has to be read of each chosen table, tables side by side."""
    numbers = [n for n, state in enumerate(fleet.states) if state.identifier in chosen and not state.refusal]

    def ask(state: TableState) -> Holder | Refusal | None:
        expirer = deployment.format_of(state.identifier).partition_expirer
        if expirer is None:
            why = f"partitions of {state.format} tables cannot be expired by this version; nothing of it is touched"
            return UnsupportedTableError(why).refusal()
        return expirer.latest(state, policies[state.identifier])

    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        yield from zip(numbers, pool.map(lambda number: ask(fleet.states[number]), numbers), strict=True)


def _expirer(deployment: Deployment, state: TableState) -> PartitionExpirer:
    return required(deployment.format_of(state.identifier).partition_expirer, state.identifier)


def _survey(
    deployment: Deployment, state: TableState, policies: Policies, partitions: list[PartitionFiles], now: datetime
) -> PartitionExpiration:
    return _expirer(deployment, state).survey(state, policies[state.identifier], partitions, now)


def _tables(
    fleet: Fleet,
    policies: Policies,
    chosen: frozenset[str],
    found: Mapping[int, PartitionExpiration],
    partitions: Mapping[int, list[PartitionFiles]],
) -> tuple[tuple[TablePlan, ...], dict[str, tuple[str, ...]]]:
    """Every chosen table, planned or refused, and whom each brake stops. What a brake stops is shown all the same."""
    refusals = refusals_of(fleet, Findings())
    tables: list[TablePlan] = []
    stopped: dict[str, list[str]] = {}
    for number, state in enumerate(fleet.states):
        if state.identifier not in chosen:
            continue
        mine = found.get(number, PartitionExpiration(inactive="its partitions do not age"))
        policy = policies[state.identifier]
        reasons = [*refusals[state.identifier], *([mine.refusal] if mine.refusal else [])]
        shown = not reasons
        held = partitions.get(number, [])
        sight = _sight(mine, held, policy)
        for brake, message in drop_brakes(sight) if shown else ():
            reasons.append(refusal(brake, message))
            stopped.setdefault(str(brake), []).append(state.identifier)
        tables.append(
            table_plan(
                state,
                policy.as_values(),
                reasons[0] if reasons else None,
                changes={"partitions": len(mine.expired)} if shown else {},
                detail=_detail(mine, held, sight) if shown else {},
            )
        )
    return tuple(tables), {brake: tuple(names) for brake, names in stopped.items()}


def _sight(found: PartitionExpiration, partitions: list[PartitionFiles], policy: PartitionPolicy) -> DropSight:
    going = {line.partition for line in found.expired}
    due = going | {line.partition for line in found.waiting}
    return DropSight(
        table=Extent.of(partitions),
        going=Extent.of(row for row in partitions if row.partition in going),
        due=Extent.of(row for row in partitions if row.partition in due),
        max_share=policy.max_drop_share,
    )


def _detail(found: PartitionExpiration, partitions: list[PartitionFiles], sight: DropSight) -> dict[str, Any]:
    """What goes, with what each partition held when it was planned: one that has changed since is left alone."""
    held = {row.partition: row for row in partitions}

    def line(item: PartitionLine) -> dict[str, Any]:
        row = held[item.partition]
        counts = {"files": row.files, "newest_ms": row.known_ms, "rows": row.rows, "bytes": row.bytes}
        return {"partition": item.partition.hex(), "label": item.label, "reason": item.reason, **counts}

    detail: dict[str, Any] = {
        "expire": [line(item) for item in found.expired],
        "keep": [{"label": item.label, "reason": item.reason} for item in found.kept],
        "batches": [len(batch) for batch in found.batches],
    }
    if found.inactive:
        return detail | {"inactive": found.inactive}
    totals = {"table": sight.table.as_json(), "going": sight.going.as_json(), "due": sight.due.as_json()}
    return detail | totals | {"empties": sight.empties}
