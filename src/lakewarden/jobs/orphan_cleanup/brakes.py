"""Every selected table, planned or refused, and whom each brake stops."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.jobs.orphan_cleanup.sweep import Sweep
from lakewarden.model.brakes import CODES, Sight, brakes, refusal
from lakewarden.model.plan import TablePlan, Tallies, Tally
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Brake, Kind, Verdict
from lakewarden.steps.compare.findings import (
    Findings,
    damaged_since,
    live_by_uuid,
    refusals_of,
    roots_touched_by,
)
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.steps.plan.document import table_plan

# Signs that a table needs more than was seen of it: what looks like an orphan in any root it touches may be its own.
_OF_ROOTS = (Brake.REACHABLE_EMPTY, Brake.LIVE_MISSING, Brake.NOTHING_MATCHED, Brake.REACHABLE_SHRANK)
Pulled = dict[Brake, str]


def judge_tables(
    sweep: Sweep, fleet: Fleet, findings: Findings, inventory: Mapping[str, str]
) -> tuple[tuple[TablePlan, ...], dict[str, tuple[str, ...]]]:
    """Every selected table, planned or refused (by what was known before, damage, roots, brakes), and who each brake stops.

    A table that two brakes stop is under both, so that lifting one does not lift the other unseen.
    """
    refusals = refusals_of(fleet, findings)
    pulled = _pulled(sweep, fleet, findings, inventory)
    tables = []
    stopped: dict[str, list[str]] = {}
    for number, state in enumerate(fleet.states):
        if state.identifier not in sweep.chosen:
            continue
        verdicts = findings.verdicts.get(number, {})
        kinds = findings.kinds.get(number, {})
        reason = next(iter(refusals.get(state.identifier, ())), None)
        shown = reason is None
        if reason is None:
            for brake, message in pulled[number].items():
                reason = reason or refusal(brake, message)
                stopped.setdefault(str(brake), []).append(state.identifier)
        tables.append(
            table_plan(
                state,
                sweep.policies[state.identifier].as_values(),
                reason,
                verdicts={v: verdicts.get(v, Tally()) for v in Verdict} if shown else {},
                kinds={k: kinds[k] for k in Kind if k in kinds} if shown else {},
                changes={"files": verdicts.get(Verdict.ORPHAN, Tally()).files} if reason is None else {},
            )
        )
    return tuple(tables), {brake: tuple(names) for brake, names in stopped.items()}


def _pulled(sweep: Sweep, fleet: Fleet, findings: Findings, inventory: Mapping[str, str]) -> dict[int, Pulled]:
    """The brakes that stop each table: its own, those of tables that touch one of its roots, and the whole fleet's."""
    own = _own_brakes(sweep, fleet, findings, inventory)
    numbers = fleet.numbers
    tables_of = {root.id: root.tables for root in fleet.roots}
    damaged = damaged_since(fleet, findings)
    found = {number: dict(pulled) for number, pulled in own.items()}
    for brake in _OF_ROOTS:
        told = {n: (CODES[brake], f"is stopped: {own[n][brake]}", "") for n in own if brake in own[n]}
        for root, why in roots_touched_by(fleet, findings, told).items():
            for name in tables_of[root]:
                found.setdefault(numbers[name], {}).setdefault(brake, why.message)
    for number, state in enumerate(fleet.states):
        pulled = found.setdefault(number, {})
        if state.identifier not in sweep.chosen:
            continue
        if damaged and findings.verdicts.get(number, {}).get(Verdict.ORPHAN, Tally()).files:
            pulled[Brake.DAMAGED_TABLE] = damaged
    return found


def _own_brakes(sweep: Sweep, fleet: Fleet, findings: Findings, inventory: Mapping[str, str]) -> dict[int, Pulled]:
    """The brakes that each table pulls by itself. A table that was not selected is only asked what its neighbours must
    know: whether a file that it needs is missing, and whether it needs less than before."""
    twins = live_by_uuid(fleet, findings)
    swept = {root.id for root in sweep.roots}
    unswept = {name for root in fleet.roots if root.id not in swept for name in root.tables}
    found: dict[int, Pulled] = {}
    for number, state in enumerate(fleet.states):
        chosen = state.identifier in sweep.chosen
        verdicts = findings.verdicts.get(number, {})
        count, example = findings.missing.get(number, (0, ""))
        policy = sweep.policies.get(state.identifier)
        if policy is None or not (chosen or verdicts or count):
            continue
        known = fleet.memory.of(state)
        sight = Sight(
            has_snapshot=state.current_snapshot_id is not None,
            listed=_sum(verdicts),
            live=twins.get(state.uuid or state.identifier, Tally()),
            orphans=verdicts.get(Verdict.ORPHAN, Tally()),
            missing=count,
            missing_example=example,
            from_inventory=bool(state.location) and any(_covers(prefix, state.location) for prefix in inventory),
            last_live_files=known.live_files if known else None,
            max_share=policy.max_orphan_share,
            max_orphans=policy.max_orphans,
        )
        asked = set(Brake) if chosen else {Brake.LIVE_MISSING, Brake.REACHABLE_SHRANK}
        if state.identifier in unswept:
            # What lies in a root that was not listed could not be counted.
            asked -= {Brake.REACHABLE_EMPTY, Brake.NOTHING_MATCHED, Brake.REACHABLE_SHRANK}
        found[number] = {brake: message for brake, message in brakes(sight) if brake in asked}
    return found


def _sum(tallies: Tallies) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total += tally
    return total


def _covers(prefix: str, location: str) -> bool:
    return FileUri.parse(location).as_prefix().startswith(FileUri.parse(prefix).as_prefix())
