"""Every selected table, planned or refused, and whom each brake stops."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.jobs.orphan_cleanup.sweep import Sweep
from lakewarden.ledger.reach import Reach
from lakewarden.model.brakes import Sight, brakes, refusal
from lakewarden.model.plan import TablePlan, Tallies, Tally
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.steps.compare.findings import Findings, live_by_uuid, refusals_of
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.steps.plan.document import table_plan


def judge_tables(
    sweep: Sweep, fleet: Fleet, findings: Findings, last: Mapping[str, Reach], inventory: Mapping[str, str]
) -> tuple[tuple[TablePlan, ...], dict[str, tuple[str, ...]]]:
    """Every selected table, planned or refused (by what was known before, damage, roots, brakes), and who each brake stops.

    A table that two brakes stop is under both, so that lifting one does not lift the other unseen.
    """
    refusals = refusals_of(fleet, findings, last)
    twins = live_by_uuid(fleet, findings)
    tables = []
    stopped: dict[str, list[str]] = {}
    for number, state in enumerate(fleet.states):
        if state.identifier not in sweep.chosen:
            continue
        policy = sweep.policies[state.identifier]
        verdicts = findings.verdicts.get(number, {})
        count, example = findings.missing.get(number, (0, ""))
        seen = last.get(state.identifier)
        sight = Sight(
            has_snapshot=state.current_snapshot_id is not None,
            listed=_sum(verdicts),
            live=twins.get(state.uuid, Tally()),
            orphans=verdicts.get(Verdict.ORPHAN, Tally()),
            missing=count,
            missing_example=example,
            from_inventory=bool(state.location) and any(_covers(prefix, state.location) for prefix in inventory),
            last_live_files=seen.live_files if seen and seen.uuid == state.uuid else None,
            max_share=policy.max_orphan_share,
            max_orphans=policy.max_orphans,
        )
        found = list(brakes(sight))
        pulled = [refusal(brake, message) for brake, message in found]
        reasons = [*refusals.get(state.identifier, []), *pulled]
        reason = reasons[0] if reasons else None
        shown = reason is None or reason in pulled
        if reason in pulled:
            for brake, _ in found:
                stopped.setdefault(str(brake), []).append(state.identifier)
        orphans = verdicts.get(Verdict.ORPHAN, Tally())
        tables.append(
            table_plan(
                state,
                policy.as_values(),
                reason,
                verdicts={v: verdicts.get(v, Tally()) for v in Verdict} if shown else {},
                kinds={k: findings.kinds.get(number, {})[k] for k in Kind if k in findings.kinds.get(number, {})}
                if shown
                else {},
                changes={"files": orphans.files} if reason is None else {},
            )
        )
    return tuple(tables), {brake: tuple(names) for brake, names in stopped.items()}


def _sum(tallies: Tallies) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total += tally
    return total


def _covers(prefix: str, location: str) -> bool:
    return FileUri.parse(location).as_prefix().startswith(FileUri.parse(prefix).as_prefix())
