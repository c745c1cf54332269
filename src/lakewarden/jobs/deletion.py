"""Physical deletion: of the files that expiry released, which may go now. Applying is `jobs.applying`.

Nothing is listed: the ledger knows each file as expiry saw it. Everything is read again that could need one of them,
because a rollback, a new tag or a branch may have brought it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.jobs.evidence import Evidence, gather, refusals_of
from lakewarden.jobs.fleet import Fleet, load_fleet
from lakewarden.jobs.planning import PLAN_LIFETIME, Request, chosen_of, keep_plan, planned_root, policies_of
from lakewarden.jobs.rooms import Rooms
from lakewarden.jobs.sweeping import part_task_of, read_task, release_rules, spark_failure
from lakewarden.ledger.pending import PendingFile
from lakewarden.logs import bind
from lakewarden.model.brakes import refusal
from lakewarden.model.errors import LakewardenError
from lakewarden.model.plan import Plan, TablePlan, Tally
from lakewarden.model.policy import DeletionPolicy, Job
from lakewarden.model.ports import Progress
from lakewarden.model.roots import Root
from lakewarden.model.run import PlanResult
from lakewarden.model.verdict import Brake, Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.holdings import Holdings
from lakewarden.pipeline.parts import notes_facts

if TYPE_CHECKING:
    from lakewarden.pipeline.session import SparkSession

STAGES = 4


@dataclass(frozen=True)
class Due:
    """The released files that may go now, written beside the plan, and what still has to wait, by table."""

    parts: tuple[str, ...]
    tables: frozenset[str]
    waiting: Mapping[str, Tally]


def plan(rooms: Rooms, request: Request, progress: Progress) -> PlanResult:
    """Write down which released files nothing needs. Changes nothing."""
    log = bind(job=str(Job.PHYSICAL_DELETION))
    now = rooms.clock.now()
    session = rooms.warm_spark()

    progress("load tables", 0, STAGES)
    fleet = load_fleet(rooms, now)
    policies, fleet = policies_of(rooms, fleet, request, Job.PHYSICAL_DELETION, DeletionPolicy.of)
    chosen = chosen_of(fleet, request)

    progress("collect", 1, STAGES)
    due = _collect(rooms, fleet, policies, chosen, now, request.directory)
    roots = [root for root in fleet.roots if root.refusal is None and due.tables.intersection(root.tables)]
    log.info("tables loaded", tables=len(fleet.states), chosen=len(chosen), releasing=len(due.tables))

    progress("compare", 2, STAGES)
    evidence = _evidence(rooms, fleet, chosen, roots, due, request.directory, session) if roots else Evidence()

    progress("write the plan", 3, STAGES)
    tables, stopped = _tables(rooms, fleet, policies, chosen, evidence, due)
    document = Plan(
        job=Job.PHYSICAL_DELETION,
        created_at=now,
        expires_at=now + PLAN_LIFETIME,
        cutoff=now - min((policies[name].visibility_delay for name in chosen), default=timedelta()),
        actor=request.actor,
        tables=tables,
        roots=tuple(planned_root(root, fleet, evidence) for root in roots),
        parts=evidence.parts,
        pointers=fleet.pointers,
        brakes={str(Brake.REACHABLE_EMPTY): stopped} if stopped else {},
    ).sealed()
    keep_plan(rooms, request, document)
    progress("done", STAGES, STAGES)
    log.info("plan written", plan=document.plan_id, files=document.totals()["changes"].get("files", 0))
    return PlanResult(document, request.directory)


def _collect(
    rooms: Rooms,
    fleet: Fleet,
    policies: Mapping[str, DeletionPolicy],
    chosen: frozenset[str],
    now: datetime,
    directory: str,
) -> Due:
    """Released files of the chosen tables, page by page: those past their delay go to files of LISTED rows."""
    roots = sorted((root for root in fleet.roots if root.refusal is None), key=lambda root: root.prefix)
    parts: list[str] = []
    tables: set[str] = set()
    waiting: dict[str, Tally] = {}
    for number, page in enumerate(rooms.ledger.pending.iter_files(now)):
        ready = []
        for file in page:
            if file.table not in chosen:
                continue
            if file.released_at > now - policies[file.table].visibility_delay:
                waiting[file.table] = waiting.get(file.table, Tally()) + Tally(1, file.size)
            else:
                ready.append(file)
        rows = _listed(ready, roots)
        if rows.num_rows:
            parts.append(f"{directory}listed/part-{number:05d}.parquet")
            sink = pa.BufferOutputStream()
            pq.write_table(rows, sink, compression="zstd", write_page_checksum=True)
            rooms.stores.put(parts[-1], sink.getvalue().to_pybytes())
            tables |= {file.table for file in ready}
    return Due(tuple(parts), frozenset(tables), waiting)


def _listed(files: Sequence[PendingFile], roots: Sequence[Root]) -> pa.Table:
    """LISTED rows of files that lie in a root that is known; others wait until their table can be read again."""
    uris = np.array([file.uri for file in files], object)
    prefixes = np.array([root.prefix for root in roots], object)
    at = np.searchsorted(prefixes, uris, side="right") - 1 if len(roots) and len(files) else np.full(len(files), -1)
    inside = [file.uri.startswith(roots[i].prefix) if i >= 0 else False for i, file in zip(at, files, strict=True)]
    kept = [(roots[i].id, file) for i, file, ok in zip(at, files, inside, strict=True) if ok]
    columns = [
        [root for root, _ in kept],
        [file.uri for _, file in kept],
        [file.size for _, file in kept],
        [file.modified for _, file in kept],
        [file.etag for _, file in kept],
        [None] * len(kept),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, c.LISTED, strict=True)]
    return pa.table(arrays, schema=c.LISTED)


def _evidence(
    rooms: Rooms,
    fleet: Fleet,
    chosen: frozenset[str],
    roots: Sequence[Root],
    due: Due,
    directory: str,
    session: Future[SparkSession],
) -> Evidence:
    """Each released file: needed again by some table of the fleet, or free to go."""
    from lakewarden.pipeline import quick
    from lakewarden.pipeline import sweep as spark_sweep
    from lakewarden.pipeline.holding import marks_of
    from lakewarden.pipeline.settling import settle

    holdings = Holdings.of(((n, state, state.held) for n, state in enumerate(fleet.states)), fleet.homes)
    part = part_task_of(rooms, fleet, roots, release_rules(rooms, fleet, chosen), directory)
    try:
        spark = session.result()
        read = read_task(rooms)
        facts: pa.Table
        if (settled := settle(spark, holdings, read)) is not None:
            facts = quick.facts_of_files(spark, due.parts, settled.live, part, read)
            facts = pa.concat_tables([facts, notes_facts(list(settled.notes))])
            counts = settled.live.counts(len(fleet.states))
            needed = {number: (int(count), "") for number, count in enumerate(counts) if count}
            return replace(gather(facts, Verdict.PENDING, holdings.tables), missing=needed)
        listed = spark_sweep.stored(spark, due.parts, c.LISTED, read)
        facts = spark_sweep.facts(listed, marks_of(spark, holdings, read), part)
    except LakewardenError:
        raise
    except Exception as error:
        raise spark_failure(error) from error
    return gather(facts, Verdict.PENDING, holdings.tables)


def _tables(
    rooms: Rooms,
    fleet: Fleet,
    policies: Mapping[str, DeletionPolicy],
    chosen: frozenset[str],
    evidence: Evidence,
    due: Due,
) -> tuple[tuple[TablePlan, ...], tuple[str, ...]]:
    """Every chosen table, and those that a brake stops: a table with a snapshot needs files, so none found is a fault."""
    refusals = refusals_of(fleet, evidence, rooms.ledger.reach.last())
    found: list[TablePlan] = []
    stopped: list[str] = []
    for number, state in enumerate(fleet.states):
        name = state.identifier
        if name not in chosen:
            continue
        verdicts = dict(evidence.verdicts.get(number, {}))
        needed = verdicts.get(Verdict.LIVE, Tally()).files + evidence.missing.get(number, (0, ""))[0]
        reasons = list(refusals[name])
        if not reasons and name in due.tables and state.current_snapshot_id is not None and not needed:
            reasons = [refusal(Brake.REACHABLE_EMPTY, "the table has a snapshot, yet no file was found reachable")]
            stopped.append(name)
        planned = not reasons or name in stopped
        verdicts[Verdict.TOO_NEW] = due.waiting.get(name, Tally())
        released = verdicts.get(Verdict.PENDING, Tally())
        kinds = evidence.kinds.get(number, {})
        table = TablePlan(
            identifier=name,
            uuid=state.uuid,
            format=state.format,
            metadata_location=state.metadata_location,
            refs=state.refs,
            policy=policies[name].as_values(),
        )
        if planned:
            table = replace(
                table,
                verdicts={v: verdicts.get(v, Tally()) for v in Verdict},
                kinds={k: kinds[k] for k in Kind if k in kinds},
            )
        if reasons:
            found.append(replace(table, refusal=reasons[0]))
        else:
            found.append(replace(table, changes={"files": released.files}))
    return tuple(found), tuple(stopped)
