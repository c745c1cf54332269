"""Physical deletion: of the files that expiry released, which may go now.

Nothing is listed: the ledger knows each file as expiry saw it. Everything is read again that could need one of them,
because a rollback, a new tag or a branch may have brought it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.jobs.physical_deletion.cold_copies import ColdCopies, ColdTable
from lakewarden.jobs.physical_deletion.cold_recheck import COLD_PLACES
from lakewarden.jobs.physical_deletion.needed import Released, needed_again
from lakewarden.logs import bind
from lakewarden.model.brakes import refusal
from lakewarden.model.plan import TablePlan, Tally, add_tallies
from lakewarden.model.policy import DeletionPolicy, Job
from lakewarden.model.ports import Progress
from lakewarden.model.roots import Root
from lakewarden.model.run import PlanResult
from lakewarden.model.verdict import Brake, Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.steps.compare.findings import Findings, damaged_since, reached_of, refusals_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.clocks import store_now
from lakewarden.steps.observe.fleet import Fleet, load_fleet
from lakewarden.steps.plan.document import (
    Request,
    chosen_of,
    draw_up,
    planned_root,
    policies_of,
    table_plan,
    without_strangers,
)

WAITING_FOR_COLD_COPY = "waiting_for_cold_copy"
COLD_COPY_BLOCKED = "cold_copy_blocked"
INSTANT = c.LISTED.field(c.MODIFIED).type


@dataclass(frozen=True)
class Due:
    """The released files that may go now, written beside the plan; and by table what still has to wait: for its
    delay, or for its copy in the cold tier, and why that may never come."""

    parts: tuple[str, ...]
    roots: tuple[Root, ...]
    tables: frozenset[str]
    waiting: Mapping[str, Tally]
    uncopied: Mapping[str, Tally]
    blocked: Mapping[str, str] = field(default_factory=dict)
    handed: Mapping[str, ColdTable] = field(default_factory=dict)


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Write down which released files nothing needs. Changes nothing."""
    log = bind(job=str(Job.PHYSICAL_DELETION))
    now = deployment.clock.now()
    session = deployment.warm_spark()

    progress("load tables", 0, 0)
    fleet = load_fleet(deployment, now)
    policies, fleet = policies_of(deployment, fleet, request, Job.PHYSICAL_DELETION, DeletionPolicy.of)
    fleet = without_strangers(deployment, replace(fleet, roots=tuple(store_now(deployment, fleet.roots))))
    chosen = chosen_of(fleet, request, policies)

    progress("collect", 0, 0)
    due = _collect(deployment, fleet, Ground.of(fleet, policies, chosen, now), now, request.directory)
    log.info("tables loaded", tables=len(fleet.states), chosen=len(chosen), releasing=len(due.tables))

    progress("compare", 0, 0)
    released = Released(fleet, due.parts, due.roots, request.directory, session)
    findings = needed_again(deployment, released, chosen) if due.roots else Findings()

    progress("write the plan", 0, 0)
    tables, stopped = _tables(deployment, fleet, policies, chosen, findings, due)
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.PHYSICAL_DELETION,
        now,
        cutoff=now - min((policies[name].visibility_delay for name in chosen), default=timedelta()),
        tables=tables,
        roots=tuple(planned_root(root, fleet, findings) for root in due.roots),
        parts=findings.parts,
        brakes=stopped,
        reached=reached_of(fleet, findings, before=fleet.pointers) if due.roots else None,
    )
    log.info("plan written", plan=result.plan.plan_id, files=result.plan.totals()["changes"].get("files", 0))
    return result


@dataclass(frozen=True)
class Ground:
    """Where released files lie: the roots that may be changed, by prefix, and for each the strictest of its tables' rules.

    A file belongs to the tables of its directory, whatever their names were when it was released.
    """

    roots: tuple[Root, ...]
    due: pa.Array
    asking: frozenset[str]

    @staticmethod
    def of(fleet: Fleet, policies: Mapping[str, DeletionPolicy], chosen: frozenset[str], now: datetime) -> Ground:
        """Roots with a table that was not chosen are left alone."""
        roots = tuple(root for root in fleet.roots if root.refusal is None and chosen.issuperset(root.tables))
        delays = [max(policies[name].visibility_delay for name in root.tables) for root in roots]
        asking = {
            name for root in roots if any(policies[n].require_cold_copy for n in root.tables) for name in root.tables
        }
        return Ground(roots, pa.array([now - delay for delay in delays], INSTANT), frozenset(asking))

    def placed(self, files: pa.Table) -> pa.Table:
        """The files that lie in one of the roots, with its place among them, when it is due and a table that is there."""
        files = files.sort_by("uri")
        uris = files["uri"].to_numpy()
        place = np.full(len(uris), -1, np.int32)
        # A root ends in a slash, so its files are the names before the same with the character after it.
        firsts = np.searchsorted(uris, np.array([root.prefix for root in self.roots], object))
        ends = np.searchsorted(uris, np.array([root.prefix[:-1] + "0" for root in self.roots], object))
        for at in np.flatnonzero(firsts < ends).tolist():
            place[firsts[at] : ends[at]] = at
        files = files.append_column("place", pa.array(place)).filter(pa.array(place >= 0))
        return files.append_column("due", self.due.take(files["place"].combine_chunks())).set_column(
            files.schema.get_field_index("table"), "table", self._tables(files)
        )

    def _tables(self, files: pa.Table) -> pa.Array:
        """The table that released each file, or the first of its directory if that one is called otherwise now."""
        places = files["place"].to_numpy()
        there = [frozenset(root.tables) for root in self.roots]
        pairs = files.select(["place", "table"]).group_by(["place", "table"]).aggregate([]).to_pylist()
        moved = {(row["place"], row["table"]) for row in pairs if row["table"] not in there[row["place"]]}
        if not moved:
            return files["table"].combine_chunks()
        names = [
            self.roots[place].tables[0] if (place, name) in moved else name
            for place, name in zip(places.tolist(), files["table"].to_pylist(), strict=True)
        ]
        return pa.array(names, pa.string())


def _collect(deployment: Deployment, fleet: Fleet, ground: Ground, now: datetime, directory: str) -> Due:
    """Released files of the chosen tables, page by page: those that may go now become files of LISTED rows."""
    cold = ColdCopies.of(deployment.ledger, fleet.states, ground.asking, stores=deployment.stores)
    parts: list[str] = []
    tables: set[str] = set()
    roots: set[int] = set()
    waiting: dict[str, Tally] = {}
    uncopied: dict[str, Tally] = {}
    for number, page in enumerate(deployment.ledger.pending.iter_tables(now)):
        mine = ground.placed(page)
        past = pc.less_equal(mine["released_at"], mine["due"])
        waiting = add_tallies(waiting, _tallies(mine.filter(pc.invert(past))))
        mine = mine.filter(past)
        copied = cold.may_go(mine)
        uncopied = add_tallies(uncopied, _tallies(mine.filter(pc.invert(copied))))
        mine = mine.filter(copied)
        if mine.num_rows:
            parts.append(f"{directory}listed/part-{number:05d}.parquet")
            sink = pa.BufferOutputStream()
            pq.write_table(_listed(mine, ground.roots), sink, compression="zstd", write_page_checksum=True)
            deployment.stores.put(parts[-1], sink.getvalue().to_pybytes())
            roots.update(pc.unique(mine["place"]).to_pylist())
            tables.update(pc.unique(mine["table"]).to_pylist())
    swept = tuple(ground.roots[at] for at in sorted(roots))
    handed = {name: place for name, place in cold.handed.items() if name in tables}
    return Due(tuple(parts), swept, frozenset(tables), waiting, uncopied, dict(cold.blocked), handed)


def _tallies(files: pa.Table) -> dict[str, Tally]:
    """How many files and bytes, by table."""
    sums = files.group_by("table").aggregate([("size", "count"), ("size", "sum")])
    return {row["table"]: Tally(row["size_count"], row["size_sum"]) for row in sums.to_pylist()}


def _listed(files: pa.Table, roots: Sequence[Root]) -> pa.Table:
    """LISTED rows of released files."""
    ids = np.array([root.id for root in roots], np.int32)[files["place"].to_numpy()]
    blank = pa.nulls(files.num_rows, pa.string())
    return pa.table([ids, *(files[name] for name in ("uri", c.SIZE, c.MODIFIED, c.ETAG)), blank], schema=c.LISTED)


def _detail(name: str, due: Due) -> dict[str, Any]:
    """What waits for the cold tier, and where the copies of what does not are: looked at again before it goes."""
    uncopied, blocked, handed = due.uncopied.get(name, Tally()), due.blocked.get(name), due.handed.get(name)
    found: dict[str, Any] = {COLD_PLACES: sorted(map(list, handed.places))} if handed else {}
    if uncopied.files:
        found |= {WAITING_FOR_COLD_COPY: uncopied.files} | ({COLD_COPY_BLOCKED: blocked} if blocked else {})
    return found


def _tables(
    deployment: Deployment,
    fleet: Fleet,
    policies: Mapping[str, DeletionPolicy],
    chosen: frozenset[str],
    findings: Findings,
    due: Due,
) -> tuple[tuple[TablePlan, ...], dict[str, tuple[str, ...]]]:
    """Every chosen table, and whom each brake stops: a table with a snapshot needs files, so none found is a fault."""
    refusals, damaged = refusals_of(fleet, findings), damaged_since(fleet, findings)
    needed = _needed_by_uuid(fleet, findings)
    found: list[TablePlan] = []
    stopped: dict[str, list[str]] = {}
    for number, state in enumerate(fleet.states):
        name = state.identifier
        if name not in chosen:
            continue
        verdicts = dict(findings.verdicts.get(number, {}))
        reasons = list(refusals[name])
        pulled: dict[Brake, str] = {}
        if name in due.tables and state.current_snapshot_id is not None and not needed[state.uuid]:
            pulled[Brake.REACHABLE_EMPTY] = "the table has a snapshot, yet no file was found reachable"
        if name in due.tables and damaged:
            pulled[Brake.DAMAGED_TABLE] = damaged
        planned = not reasons
        for brake, message in pulled.items() if planned else ():
            reasons.append(refusal(brake, message))
            stopped.setdefault(str(brake), []).append(name)
        uncopied = due.uncopied.get(name, Tally())
        verdicts[Verdict.TOO_NEW] = due.waiting.get(name, Tally()) + uncopied
        released = verdicts.get(Verdict.PENDING, Tally())
        kinds = findings.kinds.get(number, {})
        table = table_plan(state, policies[name].as_values(), detail=_detail(name, due))
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
    return tuple(found), {brake: tuple(names) for brake, names in stopped.items()}


def _needed_by_uuid(fleet: Fleet, findings: Findings) -> Counter[str]:
    """How many files each table was found to need. One with two names is counted under only one of them."""
    found: Counter[str] = Counter()
    for number, count in findings.needed.items():
        found[fleet.states[number].uuid] += count
    return found
