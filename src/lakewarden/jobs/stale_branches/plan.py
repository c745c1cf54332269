"""Stale branches: what every branch is worth, and which of them a policy lets go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakewarden.jobs.stale_branches.judged import Judge, Judged
from lakewarden.jobs.stale_branches.places import Place, places_of
from lakewarden.logs import bind
from lakewarden.model.brakes import refusal
from lakewarden.model.branches import BranchPlace, BranchPolicy, BranchState, too_many
from lakewarden.model.errors import NotFoundError
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import catalog_of
from lakewarden.model.verdict import Brake
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import load_fleet
from lakewarden.steps.observe.presence import look_twice
from lakewarden.steps.plan.document import Request, asked_for, committable, draw_up, planned_root, policies_of


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Look at every branch and write down which would be removed. Changes nothing."""
    log = bind(job=str(Job.STALE_BRANCHES))
    now = deployment.clock.now()

    progress("load tables", 0, 0)
    policies, fleet = policies_of(deployment, load_fleet(deployment, now), request, Job.STALE_BRANCHES, BranchPolicy.of)
    fleet = committable(deployment, fleet)
    places = places_of(deployment, request, fleet, policies)
    if not places and (request.select or request.exclude or request.within):
        raise NotFoundError(f"no table or branch matches {asked_for(request)}; nothing was planned")

    progress("look for files", 0, 0)
    asked = [one.place for one in places if one.refusal is None and one.place.sights]
    seen = look_twice(deployment, (uri for place in asked for uri in _files(place)))

    progress("decide", 0, 0)
    judge = Judge(deployment, now)
    places = [
        one if one.refusal else replace(one, branches=tuple(judge.of(one.keeper, one.place, one.policy, seen)))
        for one in places
    ]

    progress("write the plan", 0, 0)
    tables, stopped = _tables(places)
    changing = {table.identifier for table in tables if any(table.changes.values())}
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.STALE_BRANCHES,
        now,
        tables=tables,
        roots=tuple(planned_root(r, fleet, Findings()) for r in fleet.roots if changing.intersection(r.tables)),
        brakes=stopped,
    )
    log.info("plan written", plan=result.plan.plan_id, **result.plan.totals()["changes"])
    return result


def _files(place: BranchPlace) -> Iterator[str]:
    for sight in place.sights:
        yield from (*sight.needs, *sight.witnesses)


def _tables(places: Sequence[Place]) -> tuple[tuple[TablePlan, ...], dict[str, tuple[str, ...]]]:
    """Every place, planned or refused, and whom the brake stops. What it stops is shown all the same."""
    braked = _braked(places)
    tables = []
    for one in places:
        held = braked.get(catalog_of(one.place.identifier)) if one.going and one.refusal is None else None
        why = one.refusal or (refusal(Brake.BRANCH_SHARE, held) if held else None)
        tables.append(
            TablePlan(
                identifier=one.place.identifier,
                uuid=one.place.uuid,
                format=one.format,
                metadata_location=one.place.metadata_location,
                refusal=why,
                policy=one.policy.as_values(),
                changes={} if one.refusal else _changes(one),
                detail={} if one.refusal else _detail(one),
            )
        )
    stopped = tuple(t.identifier for t, one in zip(tables, places, strict=True) if t.refusal and not one.refusal)
    return tuple(tables), {str(Brake.BRANCH_SHARE): stopped} if stopped else {}


def _braked(places: Sequence[Place]) -> dict[str, str]:
    """By catalog, why so many of its branches are not removed without a person's word: everything looks gone, perhaps."""
    going: Counter[str] = Counter()
    branches: Counter[str] = Counter()
    shares: dict[str, float] = {}
    for one in places:
        catalog = catalog_of(one.place.identifier)
        going[catalog] += len(one.going)
        branches[catalog] += len(one.branches)
        shares[catalog] = min(shares.get(catalog, 1.0), one.policy.max_remove_share)
    found = {name: too_many(going[name], branches[name], shares[name]) for name in going}
    return {name: why for name, why in found.items() if why is not None}


def _changes(one: Place) -> dict[str, int]:
    changes = {"refs": len(one.going)}
    return changes | {"branches": 1} if one.whole else changes


def _detail(one: Place) -> dict[str, Any]:
    """Every branch that is worth a line, and where each of them is now, for a later plan to know since when."""
    return {
        "states": dict(Counter(str(item.found.state) for item in one.branches)),
        "branches": [_line(item) for item in one.branches if item.found.state is not BranchState.HEALTHY],
        "seen": {item.sight.name: item.sight.at for item in one.branches},
        "of_catalog": one.place.of_catalog,
        "whole": one.whole,
    }


def _line(item: Judged) -> dict[str, Any]:
    sight, found = item.sight, item.found
    line: dict[str, Any] = {
        "name": sight.name,
        "branch": sight.branch,
        "table": sight.table,
        "snapshot_id": sight.snapshot_id,
        "committed_ms": sight.committed_ms,
        "state": str(found.state),
        "states": [str(state) for state in found.states],
        "reason": found.reason,
        "goes": found.goes,
    }
    if found.kept is not None:
        line["kept"] = found.kept
    return line | {"gone": list(found.gone), "record": dict(sight.record)} if found.goes else line
