"""Tier handover: which files of expired snapshots have to be copied to the cold place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakewarden.jobs.tier_handoff.aged_files import AgedFiles, Survey
from lakewarden.jobs.tier_handoff.aged_out import AgedOut, aged_out
from lakewarden.logs import bind
from lakewarden.model.errors import Refusal, UnreadableMetadataError
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import TableState
from lakewarden.model.tiers import HandoffPolicy
from lakewarden.model.verdict import Kind
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import LOAD_THREADS, Fleet, load_fleet
from lakewarden.steps.plan.document import Request, chosen_of, draw_up, policies_of, table_plan

Policies = Mapping[str, HandoffPolicy]
Waiting = Mapping[int, AgedOut | Refusal | str]


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Observe what expiry left behind and write down what would be copied. Changes nothing."""
    log = bind(job=str(Job.TIER_HANDOFF))
    now = deployment.clock.now()

    progress("load tables", 0, 0)
    fleet = load_fleet(deployment, now)
    policies, fleet = policies_of(deployment, fleet, request, Job.TIER_HANDOFF, HandoffPolicy.of)
    chosen = chosen_of(fleet, request, policies)

    progress("find expired snapshots", 0, 0)
    waiting = dict(_waiting(deployment, fleet, policies, chosen))
    aged = {number: found for number, found in waiting.items() if isinstance(found, AgedOut)}

    progress("look at their files", 0, 0)
    # Whose live refs count: for a class that cannot be read at once, every table's.
    everything = any(policies[fleet.states[number].identifier].archives for number in aged)
    survey = Survey(deployment, fleet, aged, request.directory, everything=everything)
    files = survey.files() if aged else AgedFiles()

    progress("write the plan", 0, 0)
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.TIER_HANDOFF,
        now,
        tables=tuple(_tables(deployment, fleet, policies, waiting, files)),
        parts=files.parts,
    )
    log.info("plan written", plan=result.plan.plan_id, **result.plan.totals()["changes"])
    return result


def _waiting(
    deployment: Deployment, fleet: Fleet, policies: Policies, chosen: frozenset[str]
) -> Iterator[tuple[int, AgedOut | Refusal | str]]:
    """What waits of each chosen table, tables side by side."""
    numbers = [n for n, state in enumerate(fleet.states) if state.identifier in chosen]

    def ask(state: TableState) -> AgedOut | Refusal | str:
        policy = policies[state.identifier]
        if state.refusal is not None and policy.destination is not None:
            return state.refusal
        return aged_out(deployment, state, policy, fleet)

    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        yield from zip(numbers, pool.map(lambda number: ask(fleet.states[number]), numbers), strict=True)


def _tables(
    deployment: Deployment, fleet: Fleet, policies: Policies, waiting: Waiting, files: AgedFiles
) -> Iterator[TablePlan]:
    for number, found in waiting.items():
        state = fleet.states[number]
        refusal = found if isinstance(found, Refusal) else files.refusals.get(number)
        detail: dict[str, Any] = {"inactive": found} if isinstance(found, str) else {}
        kinds = files.kinds.get(number, {})
        changes = {"snapshots": 0, "files": 0}
        if isinstance(found, AgedOut) and refusal is None:
            lost = files.lost.get(number, {})
            refusal = _all_lost(deployment, found, lost)
            detail = _detail(deployment, found, lost, files.known.get(number, 0))
            total = sum(tally.files for tally in kinds.values())
            changes = {"snapshots": len(detail["snapshots"]), "files": total}
        yield table_plan(
            state,
            policies[state.identifier].as_values(),
            refusal,
            kinds={} if refusal else {kind: kinds[kind] for kind in Kind if kind in kinds},
            changes={} if refusal else changes,
            detail={} if refusal else detail,
        )


def _detail(deployment: Deployment, found: AgedOut, lost: Mapping[int, str], known: int) -> dict[str, Any]:
    """What apply needs to know of the table, and what a person wants to: which snapshots go, and why others cannot."""
    return {
        "cold": found.directory,
        "location": found.location,
        "snapshots": [
            {
                "snapshot_id": snapshot.snapshot_id,
                "committed_ms": snapshot.committed_ms,
                "archive": found.archives[snapshot.snapshot_id].uri,
            }
            for snapshot in found.snapshots
            if snapshot.snapshot_id not in lost
        ],
        "already_cold": known,
        "keep": [{"snapshot_id": number, "reason": _lost_by(deployment, uri)} for number, uri in lost.items()],
    }


def _all_lost(deployment: Deployment, found: AgedOut, lost: Mapping[int, str]) -> Refusal | None:
    """A table of which no waiting snapshot is whole is refused, unless it was us who deleted its files."""
    if len(lost) < len(found.snapshots):
        return None
    strange = [uri for uri in lost.values() if not deployment.ledger.journal.find(uri)]
    if not strange:
        return None
    message = f"files of its expired snapshots are gone, such as {strange[0]}, so none of them can be handed over"
    hint = "Restore the files from a backup, or give the snapshots up; set physical_deletion.require_cold_copy to keep the next ones."
    return Refusal(UnreadableMetadataError.code, message, hint)


def _lost_by(deployment: Deployment, uri: str) -> str:
    if deployment.ledger.journal.find(uri):
        return "physical deletion was quicker: its files are gone"
    return f"a file of it is gone: {uri}"
