"""Snapshot expiry: which snapshots may go, and which files nothing needs afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from lakewarden.logs import bind
from lakewarden.model.expiry import Expiration
from lakewarden.model.plan import TablePlan, Tally
from lakewarden.model.policy import ExpiryPolicy, Job
from lakewarden.model.ports import Progress
from lakewarden.model.roots import Root
from lakewarden.model.run import PlanResult
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.pipeline.spark.work import Starting
from lakewarden.steps.compare.compare import Ground, compare
from lakewarden.steps.compare.findings import Findings, reached_of, refusals_of
from lakewarden.steps.compare.rules import release_rules
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.expirations import surveys
from lakewarden.steps.observe.fleet import Fleet, moved_since
from lakewarden.steps.observe.shards import listing_of
from lakewarden.steps.observe.strangers import refused_roots, strangers_in
from lakewarden.steps.plan.document import (
    Request,
    draw_up,
    planned_root,
    table_plan,
    to_change,
)

Expirations = Mapping[int, Expiration]


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Observe the tables and write down which snapshots may go and what they would release. Changes nothing."""
    log = bind(job=str(Job.SNAPSHOT_EXPIRY))
    now = deployment.clock.now()
    session = deployment.warm_spark()

    progress("load tables", 0, 0)
    fleet, policies, chosen = to_change(deployment, request, Job.SNAPSHOT_EXPIRY, ExpiryPolicy.of, now)

    progress("decide", 0, 0)
    expirations = dict(surveys(deployment, fleet, policies, chosen, now))
    going = {number: found for number, found in expirations.items() if found}
    names = {fleet.states[number].identifier for number in going}
    roots = [root for root in fleet.roots if root.refusal is None and names.intersection(root.tables)]
    log.info("tables loaded", tables=len(fleet.states), chosen=len(chosen), expiring=len(going))

    progress("compare", 0, 0)
    findings = _findings(deployment, fleet, going, roots, request.directory, session) if roots else Findings()

    if findings.unknown_metadata:
        parts = [request.directory + part.name for part in findings.parts]
        # By what the tables are now: a writer's commits since they were loaded are not another catalog's.
        states = [*fleet.states, *moved_since(deployment, fleet, now)]
        found = refused_roots(strangers_in(deployment, session, parts, states, now))
        findings = replace(findings, root_refusals={**found, **findings.root_refusals})

    progress("write the plan", 0, 0)
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.SNAPSHOT_EXPIRY,
        now,
        tables=tuple(
            table for table in _tables(deployment, fleet, policies, expirations, findings) if table.identifier in chosen
        ),
        roots=tuple(planned_root(root, fleet, findings) for root in roots),
        parts=findings.parts,
        reached=reached_of(fleet, findings, before=fleet.pointers, read={n for root in roots for n in root.tables}),
    )
    log.info("plan written", plan=result.plan.plan_id, snapshots=result.plan.totals()["changes"].get("snapshots", 0))
    return result


def _findings(
    deployment: Deployment,
    fleet: Fleet,
    going: Expirations,
    roots: Sequence[Root],
    directory: str,
    session: Starting,
) -> Findings:
    """What would be released, file by file: listed, named by what goes, needed by nothing that stays."""
    touching = {name for root in roots for name in root.tables}
    states = [(n, state) for n, state in enumerate(fleet.states) if state.identifier in touching]
    kept = [(n, s, going[n].holders if n in going else s.held) for n, s in states]
    holders = Holders.of(kept, fleet.homes, before=[(n, s, s.held) for n, s in states if n in going])
    expiring = {fleet.states[n].identifier for n in going}
    rules = release_rules(deployment, fleet, expiring, only=c.MARK_RELEASED)
    candidates = listing_of(deployment, fleet, roots, inventories=False)
    return compare(deployment, Ground(fleet, roots, directory, session), holders, candidates, rules)


def _tables(
    deployment: Deployment,
    fleet: Fleet,
    policies: Mapping[str, ExpiryPolicy],
    expirations: Expirations,
    findings: Findings,
) -> Iterator[TablePlan]:
    refusals = refusals_of(fleet, findings)
    for number, state in enumerate(fleet.states):
        if number not in expirations and not state.refusal:
            continue
        found = expirations.get(number, Expiration())
        reasons = [*refusals[state.identifier], *([found.refusal] if found.refusal else [])]
        planned = not reasons
        verdicts, kinds = findings.verdicts.get(number, {}), findings.kinds.get(number, {})
        yield table_plan(
            state,
            policies[state.identifier].as_values(),
            reasons[0] if reasons else None,
            verdicts={v: verdicts.get(v, Tally()) for v in Verdict} if planned else {},
            kinds={k: kinds[k] for k in Kind if k in kinds} if planned else {},
            changes=_changes(found) if planned else {},
            detail=_detail(found) if planned else {},
        )


def _changes(found: Expiration) -> dict[str, int]:
    counts = {"snapshots": len(found.expired), "refs": len(found.refs_expired), "changelogs": found.changelogs}
    return {kind: count for kind, count in counts.items() if count or kind == "snapshots"}


def _detail(found: Expiration) -> dict[str, Any]:
    return {
        "only_archived": found.only_archived,
        "expire": [line.as_json() for line in found.expired],
        "keep": [line.as_json() for line in found.kept],
        "refs": {
            "expire": [asdict(line) for line in found.refs_expired],
            "keep": [asdict(line) for line in found.refs_kept],
        },
        "steps": dict(found.detail),
    }
