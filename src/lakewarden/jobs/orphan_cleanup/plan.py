"""Orphan cleanup: find the files that nothing needs, and plan their removal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.jobs.orphan_cleanup.after_listing import after_listing
from lakewarden.jobs.orphan_cleanup.brakes import judge_tables
from lakewarden.jobs.orphan_cleanup.empty_directories import with_empty_directories
from lakewarden.jobs.orphan_cleanup.sweep import Sweep, sweep_roots
from lakewarden.ledger.reach import Reach
from lakewarden.logs import bind
from lakewarden.model.plan import Plan
from lakewarden.model.policy import Job, OrphanPolicy
from lakewarden.model.ports import Progress
from lakewarden.model.roots import named_outside
from lakewarden.model.run import PlanResult
from lakewarden.model.table import Pointer, TableState
from lakewarden.model.verdict import Verdict
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.clocks import store_now
from lakewarden.steps.observe.fleet import Fleet, load_fleet, load_states
from lakewarden.steps.plan.document import Request, chosen_of, draw_up, planned_root, policies_of

STAGES = 5


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Observe the whole lake and write down which files are orphans. Changes no table and no file of one."""
    log = bind(job=str(Job.ORPHAN_CLEANUP))
    now = deployment.clock.now()
    session = deployment.warm_spark()

    progress("load tables", 0, STAGES)
    default = OrphanPolicy.of(deployment.policy_for(Job.ORPHAN_CLEANUP, "", {}, uuid="", unsafe_short_grace=()).values)
    fleet = load_fleet(deployment, now - default.grace)
    policies, fleet = policies_of(deployment, fleet, request, Job.ORPHAN_CLEANUP, OrphanPolicy.of)
    fleet = with_longer_grace(deployment, fleet, policies, default.grace, now)
    fleet = replace(fleet, roots=tuple(store_now(deployment, fleet.roots)))
    chosen = chosen_of(fleet, request)
    log.info("tables loaded", tables=len(fleet.states), chosen=len(chosen), roots=len(fleet.roots))

    progress("list and compare", 1, STAGES)
    swept = [root for root in fleet.roots if root.refusal is None and chosen.intersection(root.tables)]
    sweep = Sweep(fleet, tuple(swept), policies, chosen, request, now, session)
    findings = sweep_roots(deployment, sweep) if swept else Findings()

    progress("look again", 2, STAGES)
    findings, fleet = after_listing(deployment, sweep, findings)
    findings = with_empty_directories(deployment, sweep, findings)

    progress("judge", 3, STAGES)
    last = deployment.ledger.reach.last()
    tables, stopped = judge_tables(sweep, fleet, findings, last, deployment.inventory)

    progress("write the plan", 4, STAGES)
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.ORPHAN_CLEANUP,
        now,
        cutoff=now - default.grace,
        tables=tables,
        roots=tuple(planned_root(root, fleet, findings) for root in swept),
        parts=findings.parts,
        brakes=stopped,
    )
    deployment.ledger.reach.record(_reaches(result.plan, fleet, sweep, findings, last))
    progress("done", STAGES, STAGES)
    log.info("plan written", plan=result.plan.plan_id, orphans=result.plan.totals()["changes"].get("files", 0))
    return result


def with_longer_grace(
    deployment: Deployment, fleet: Fleet, policies: Mapping[str, OrphanPolicy], read_for: timedelta, now: datetime
) -> Fleet:
    """Tables with a longer grace than they were read for, read again: their older states protect files too."""
    states = {state.identifier: state for state in fleet.states}
    for grace in {policy.grace for policy in policies.values() if policy.grace > read_for}:
        again = [
            (deployment.format_of(name), Pointer(name, state.metadata_location))
            for name, state in states.items()
            if policies[name].grace == grace and state.refusal is None
        ]
        states |= {state.identifier: state for state in load_states(again, now - grace)}
    return replace(fleet, states=tuple(states[state.identifier] for state in fleet.states))


def _reaches(
    document: Plan, fleet: Fleet, sweep: Sweep, findings: Findings, last: Mapping[str, Reach]
) -> Iterator[Reach]:
    """What to remember of each table: how much it reaches, and in which roots of others.

    Of a root that was not listed this time, what was known before stays known: a narrow selection must not forget
    that a table has files there. Of a table that could not be read whole, all of it does.
    """
    outside = findings.outside(fleet)
    listed = {root.prefix for root in sweep.roots}
    everything = len(listed) == len(sweep.fleet.roots)
    standing = sweep.fleet.pointers
    planned = {table.identifier: table for table in document.tables if table.refusal is None}
    for number, state in enumerate(fleet.states):
        name = state.identifier
        before = last.get(name)
        if number in findings.table_refusals or not state.files:
            continue
        unlisted = tuple(prefix for prefix in before.outside_roots if prefix not in listed) if before else ()
        places = tuple(sorted({*unlisted, *outside.get(name, ()), *_named_outside(state, fleet)}))
        known = everything or number in findings.wholly_known or not (state.manifest_lists or state.manifests)
        # Of one that moved meanwhile, only the files were looked at that nothing needed before.
        location = state.metadata_location if known and standing.get(name) == state.metadata_location else None
        same = before is not None and before.uuid == state.uuid
        files, size = (before.live_files, before.live_bytes) if before is not None and same else (0, 0)
        if name in planned and Verdict.LIVE in planned[name].verdicts:
            live = planned[name].verdicts[Verdict.LIVE]
            yield Reach(name, state.uuid, live.files, live.bytes, places, sweep.now, location)
        elif places or location:
            yield Reach(name, state.uuid, files, size, places, sweep.now, location)


def _named_outside(state: TableState, fleet: Fleet) -> Iterator[str]:
    """Roots of others that hold files which the metadata itself names."""
    prefixes = [root.prefix for root in fleet.roots]  # in order, and none within another
    for key in named_outside(state):
        at = bisect_right(prefixes, key) - 1
        if at >= 0 and key.startswith(prefixes[at]) and state.identifier not in fleet.roots[at].tables:
            yield prefixes[at]
