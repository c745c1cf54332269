"""What is known of a whole fleet without Spark: catalogs, metadata and the ledger, brought together once.

The doctor and the report page are made of this one value, so that they never tell two stories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from lakewarden.ledger.pending import Waiting
from lakewarden.ledger.plans import SavedPlan
from lakewarden.ledger.switches import Freeze
from lakewarden.model.errors import Refusal
from lakewarden.model.health import Health, Status, TableFacts, health_of
from lakewarden.model.plan import TablePlan, Tally
from lakewarden.model.policy import Job
from lakewarden.model.table import Ref, TableState
from lakewarden.model.verdict import Verdict
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, load_fleet

PLANS_LOOKED_AT = 100

Planned = Mapping[str, tuple[SavedPlan, TablePlan]]


@dataclass(frozen=True)
class Overview:
    """A fleet at one moment. `planned` has each table's part of the newest plan of orphan cleanup that looked at it;
    `maintained` are the tables that some run has cleaned; `waiting` is what expiry released, by table."""

    at: datetime
    fleet: Fleet
    planned: Planned
    maintained: frozenset[str]
    refused: Mapping[str, Refusal]
    facts: Mapping[str, TableFacts]
    health: Mapping[str, Health]
    newest_plan: SavedPlan | None
    waiting: Mapping[str, Waiting]
    frozen: Freeze | None

    @property
    def reclaimable(self) -> Tally:
        """What the newest plans would free, where nobody has applied them."""
        return sum((facts.orphans for facts in self.facts.values() if facts.orphans), Tally())

    @property
    def counts(self) -> dict[Status, int]:
        """How many tables there are of each status."""
        found = dict.fromkeys(Status, 0)
        for health in self.health.values():
            found[health.status] += 1
        return found

    def pending(self) -> Waiting:
        """Everything that waits for physical deletion."""
        oldest = [found.since for found in self.waiting.values()]
        return Waiting(sum((found.tally for found in self.waiting.values()), Tally()), min(oldest, default=self.at))


def overview_of(deployment: Deployment) -> Overview:
    """Look at every table of every catalog, and at what the ledger knows. Reads only."""
    now = deployment.clock.now()
    fleet = load_fleet(deployment, now)
    plans = deployment.ledger.plans.list(Job.ORPHAN_CLEANUP, PLANS_LOOKED_AT)
    planned, maintained = _plans_of_tables(deployment, plans, {state.identifier for state in fleet.states})
    refused = dict(_refused(fleet, planned))
    facts = dict(_facts(fleet, planned, refused))
    return Overview(
        at=now,
        fleet=fleet,
        planned=planned,
        maintained=frozenset(maintained),
        refused=refused,
        facts=facts,
        health={name: health_of(known) for name, known in facts.items()},
        newest_plan=plans[0] if plans else None,
        waiting=deployment.ledger.pending.waiting(),
        frozen=deployment.ledger.switches.frozen(),
    )


def _plans_of_tables(
    deployment: Deployment, plans: Sequence[SavedPlan], present: Set[str]
) -> tuple[dict[str, tuple[SavedPlan, TablePlan]], set[str]]:
    """Of each table the newest plan that looked at it; and the tables that some run has cleaned.

    A header of ten thousand tables takes a second to read, so a plan that can tell nothing new is not opened.
    """
    newest: dict[str, tuple[SavedPlan, TablePlan]] = {}
    maintained: set[str] = set()
    for saved in plans:
        if present <= newest.keys() and (saved.used_by is None or present <= maintained):
            continue
        header = deployment.ledger.plans.header(saved.plan_id)
        for table in header.tables if header else ():
            if table.identifier in present:
                newest.setdefault(table.identifier, (saved, table))
            if saved.used_by is not None and table.refusal is None:
                maintained.add(table.identifier)
    return newest, maintained


def _refused(fleet: Fleet, planned: Planned) -> Iterator[tuple[str, Refusal]]:
    """Tables that are left alone: by what the newest plan saw, and before that by what is visible right now."""
    for name, (_, table) in planned.items():
        if table.refusal is not None:
            yield name, table.refusal
    for root in fleet.roots:
        if root.refusal is not None:
            yield from ((name, root.refusal) for name in root.tables)
    for state in fleet.states:
        if state.refusal is not None:
            yield state.identifier, state.refusal


def _facts(fleet: Fleet, planned: Planned, refused: Mapping[str, Refusal]) -> Iterator[tuple[str, TableFacts]]:
    doubted = {doubt.table for doubt in fleet.doubts}
    for state in fleet.states:
        name = state.identifier
        saved, table = planned.get(name, (None, None))
        counted = table is not None and table.refusal is None
        yield (
            name,
            TableFacts(
                identifier=name,
                refusal=refused.get(name),
                in_doubt=name in doubted,
                snapshots=len(state.snapshot_ids),
                planned=table is not None,
                live=table.verdicts.get(Verdict.LIVE) if counted and table else None,
                orphans=table.verdicts.get(Verdict.ORPHAN, Tally()) if counted and table and unused(saved) else None,
                data=_data_of(state),
                broken_refs=sum(1 for _ in broken_refs(state)),
            ),
        )


def _data_of(state: TableState) -> Tally | None:
    """The data files of the current snapshot and their bytes, where its summary tells both."""
    now = (item for item in state.manifest_lists if item.snapshot_id == state.current_snapshot_id)
    item = next(now, None) if state.current_snapshot_id is not None else None
    if item is None or item.data_files is None or item.files_bytes is None:
        return None
    return Tally(item.data_files, item.files_bytes)


def unused(saved: SavedPlan | None) -> bool:
    return saved is not None and saved.used_by is None


def broken_refs(state: TableState) -> Iterator[Ref]:
    """Branches and tags whose snapshot the metadata does not hold.

    A tag may hold a copy of a snapshot that is gone, and says so by its lists; a branch without a snapshot is at 0.
    """
    held = state.snapshot_ids | {found.snapshot_id for found in state.manifest_lists} | {0}
    return (ref for ref in state.refs if ref.snapshot_id not in held)
