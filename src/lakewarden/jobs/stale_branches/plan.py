"""Stale branches: what every branch is worth, and which of them a policy lets go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakewarden.jobs.stale_branches.judged import Judge, Judged
from lakewarden.logs import bind
from lakewarden.model.brakes import refusal
from lakewarden.model.branches import BranchKeeper, BranchPlace, BranchPolicy, BranchState, too_many
from lakewarden.model.errors import NotFoundError, Refusal
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import catalog_of
from lakewarden.model.verdict import Brake
from lakewarden.steps.compare.findings import Findings, refusals_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, load_fleet, selection
from lakewarden.steps.observe.presence import look_twice
from lakewarden.steps.plan.document import Request, asked_for, committable, draw_up, planned_root, policies_of


@dataclass(frozen=True)
class Place:
    """A place with what may be done there, and what was found of its branches."""

    place: BranchPlace
    keeper: BranchKeeper
    format: str
    policy: BranchPolicy
    refusal: Refusal | None
    branches: tuple[Judged, ...] = ()

    @property
    def going(self) -> list[Judged]:
        return [one for one in self.branches if one.found.goes]

    @property
    def whole(self) -> bool:
        """Whether a branch of the catalog goes with all that it holds."""
        return bool(self.going) and self.place.emptied_by([one.sight.name for one in self.going])


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Look at every branch and write down which would be removed. Changes nothing."""
    log = bind(job=str(Job.STALE_BRANCHES))
    now = deployment.clock.now()

    progress("load tables", 0, 0)
    policies, fleet = policies_of(deployment, load_fleet(deployment, now), request, Job.STALE_BRANCHES, BranchPolicy.of)
    fleet = committable(deployment, fleet)
    places = list(_places(deployment, request, fleet, policies))
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


def _places(
    deployment: Deployment, request: Request, fleet: Fleet, policies: Mapping[str, BranchPolicy]
) -> Iterator[Place]:
    """Every selected place of every catalog that has branches, with its policy and why it is left alone, if it is."""
    wanted = selection(request.select, request.exclude, request.within)
    refusals = refusals_of(fleet, Findings())
    for name, found in deployment.formats.items():
        keeper = found.branch_keeper
        states = [state for state in fleet.states if catalog_of(state.identifier) == name]
        if keeper is None:
            continue
        for surveyed in keeper.survey(states):
            place = _selected(surveyed, wanted)
            if place is None:
                continue
            if place.of_catalog:
                policy, refused = _policy(deployment, place, request)
                why = [refused, _doubt(fleet, name), place.refusal]
            else:
                policy, why = policies[place.identifier], [*refusals[place.identifier], place.refusal]
            if policy.enabled or not request.enabled_only:
                yield Place(place, keeper, found.format, policy, next(filter(None, why), None))


def _selected(place: BranchPlace, wanted: Callable[[str], bool]) -> BranchPlace | None:
    """What may be changed of a place: of a catalog's branch the selected tables, or all if it is selected itself."""
    if wanted(place.identifier) or not place.of_catalog:
        return place if wanted(place.identifier) else None
    sights = tuple(sight for sight in place.sights if wanted(sight.table))
    others = place.others + len(place.sights) - len(sights)
    return replace(place, sights=sights, others=others) if sights else None


def _policy(deployment: Deployment, place: BranchPlace, request: Request) -> tuple[BranchPolicy, Refusal | None]:
    found = deployment.policy_for(
        Job.STALE_BRANCHES, place.identifier, {}, uuid="", unsafe_short_grace=request.unsafe_short_grace
    )
    return BranchPolicy.of(found.values), found.refusal


def _doubt(fleet: Fleet, catalog: str) -> Refusal | None:
    """Why no branch of a catalog is touched: a table of it that was there before cannot be seen as it was."""
    for doubt in fleet.doubts:
        if catalog_of(doubt.table) == catalog:
            return Refusal(doubt.code, f"{doubt.table} {doubt.why}; no branch of {catalog} is touched", doubt.hint)
    return None


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
