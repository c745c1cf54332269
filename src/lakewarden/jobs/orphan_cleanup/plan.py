"""Orphan cleanup: find the files that nothing needs, and plan their removal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.jobs.orphan_cleanup.after_listing import after_listing
from lakewarden.jobs.orphan_cleanup.brakes import judge_tables
from lakewarden.jobs.orphan_cleanup.empty_directories import with_empty_directories
from lakewarden.jobs.orphan_cleanup.sweep import Sweep, sweep_roots
from lakewarden.logs import bind
from lakewarden.model.policy import Job, OrphanPolicy
from lakewarden.model.ports import Progress
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.run import PlanResult
from lakewarden.model.table import Pointer
from lakewarden.model.verdict import Verdict
from lakewarden.steps.compare.findings import Findings, reached_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.clocks import store_now
from lakewarden.steps.observe.fleet import Fleet, load_fleet, load_states
from lakewarden.steps.plan.document import Request, chosen_of, draw_up, planned_root, policies_of


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Observe the whole lake and write down which files are orphans. Changes no table and no file of one."""
    log = bind(job=str(Job.ORPHAN_CLEANUP))
    now = deployment.clock.now()
    session = deployment.warm_spark()

    progress("load tables", 0, 0)
    default = OrphanPolicy.of(deployment.policy_for(Job.ORPHAN_CLEANUP, "", {}, uuid="", unsafe_short_grace=()).values)
    fleet = load_fleet(deployment, now - default.grace)
    policies, fleet = policies_of(deployment, fleet, request, Job.ORPHAN_CLEANUP, OrphanPolicy.of)
    policies = strictest_of_roots(fleet, policies)
    fleet = with_longer_grace(deployment, fleet, policies, default.grace, now)
    fleet = replace(fleet, roots=tuple(store_now(deployment, fleet.roots)))
    chosen = chosen_of(fleet, request, policies)
    log.info("tables loaded", tables=len(fleet.states), chosen=len(chosen), roots=len(fleet.roots))

    progress("list and compare", 0, 0)
    swept = [root for root in fleet.roots if root.refusal is None and chosen.intersection(root.tables)]
    sweep = Sweep(fleet, tuple(swept), policies, chosen, request, now, session)
    findings = sweep_roots(deployment, sweep) if swept else Findings()

    progress("look again", 0, 0)
    findings, fleet = after_listing(deployment, sweep, findings)
    findings = with_empty_directories(deployment, sweep, findings)

    progress("judge", 0, 0)
    tables, stopped = judge_tables(sweep, fleet, findings, deployment.inventory)

    progress("write the plan", 0, 0)
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
        reached=reached_of(
            fleet,
            findings,
            before=sweep.fleet.pointers,
            everything=len(sweep.roots) == len(sweep.fleet.roots),
            live={table.identifier: table.verdicts[Verdict.LIVE] for table in tables if table.refusal is None},
        ),
    )
    log.info("plan written", plan=result.plan.plan_id, orphans=result.plan.totals()["changes"].get("files", 0))
    return result


def strictest_of_roots(fleet: Fleet, policies: Mapping[str, OrphanPolicy]) -> dict[str, OrphanPolicy]:
    """The policies, with the longest grace and the most confirmations of all tables that touch a table's roots.

    Whose file a young one is cannot be told: of two tables that share `data/`, the one with the short grace would take
    what a slow writer of the other is about to commit.
    """
    roots = Prefixes(root.prefix for root in fleet.roots)
    touching = {root.prefix: set(root.tables) for root in fleet.roots}
    for state in fleet.states:
        for place in fleet.memory.places_of(state):
            if (root := roots.of(place)) is not None:
                touching[root].add(state.identifier)
    found = dict(policies)
    for swept in fleet.roots:
        mine = [policies[name] for name in touching[swept.prefix]]
        grace, times = max(policy.grace for policy in mine), max(policy.confirmations for policy in mine)
        for name in swept.tables:
            policy = found[name]
            if policy.grace < grace or policy.confirmations < times:
                longer = max(grace, policy.grace), max(times, policy.confirmations)
                found[name] = replace(policy, grace=longer[0], confirmations=longer[1])
    return found


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
