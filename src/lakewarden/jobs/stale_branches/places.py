"""Where branches are looked for: the places of every catalog, each with its policy and why it is left alone, if it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakewarden.jobs.stale_branches.judged import Judged
from lakewarden.model.branches import BranchKeeper, BranchPlace, BranchPolicy, strictest
from lakewarden.model.errors import Refusal
from lakewarden.model.policy import Job
from lakewarden.model.table import catalog_of, name_within
from lakewarden.steps.compare.findings import Findings, refusals_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, selection
from lakewarden.steps.plan.document import Request


@dataclass(frozen=True)
class Place:
    """A place with what may be done there, and what was found of its branches. One that is not `selected` only has a say."""

    place: BranchPlace
    keeper: BranchKeeper
    format: str
    policy: BranchPolicy
    refusal: Refusal | None
    selected: bool = True
    branches: tuple[Judged, ...] = ()

    @property
    def going(self) -> list[Judged]:
        return [one for one in self.branches if one.found.goes]

    @property
    def whole(self) -> bool:
        """Whether a branch of the catalog goes with all that it holds."""
        return bool(self.going) and self.place.emptied_by([one.sight.name for one in self.going])


def places_of(
    deployment: Deployment, request: Request, fleet: Fleet, policies: Mapping[str, BranchPolicy]
) -> list[Place]:
    """Every selected place of every catalog that has branches, with its policy and why it is left alone, if it is."""
    places = _as_one(list(_places(deployment, request, fleet, policies)))
    return [one for one in places if one.selected and (one.policy.enabled or not request.enabled_only)]


def _places(
    deployment: Deployment, request: Request, fleet: Fleet, policies: Mapping[str, BranchPolicy]
) -> Iterator[Place]:
    wanted = selection(request.select, request.exclude, request.within)
    refusals = refusals_of(fleet, Findings())
    for name, found in deployment.formats.items():
        keeper = found.branch_keeper
        states = [state for state in fleet.states if catalog_of(state.identifier) == name]
        if keeper is None:
            continue
        for surveyed in keeper.survey(states):
            place = _selected(surveyed, wanted)
            if surveyed.of_catalog:
                policy, refused = _policy(deployment, surveyed, request)
                why = [refused, _doubt(fleet, name), surveyed.refusal]
            elif place is not None:
                policy, why = policies[place.identifier], [*refusals[place.identifier], place.refusal]
            else:
                continue
            first = next(filter(None, why), None)
            yield Place(place or surveyed, keeper, found.format, policy, first, selected=place is not None)


def _as_one(places: Sequence[Place]) -> Iterator[Place]:
    """A branch that several catalogs show by what all of them allow, and removed through the first of them alone.

    Its name and its commit tell it: Nessie's commits are digests, so that only a copy of a server has the same.
    """
    shown: dict[tuple[str, str], list[Place]] = {}
    for one in places:
        if one.place.of_catalog:
            shown.setdefault((name_within(one.place.identifier), one.place.metadata_location), []).append(one)
    for one in places:
        several = shown.get((name_within(one.place.identifier), one.place.metadata_location), [])
        if len(several) < 2:
            yield one
            continue
        policy = strictest([other.policy for other in several])
        why = next((other.refusal for other in several if other.refusal is not None), None)
        first = next((other.place.identifier for other in several if other.selected), None)
        same = None if one.place.identifier == first else f"{first} is the same branch: it goes there, or not at all"
        yield replace(one, place=replace(one.place, report_only=same), policy=policy, refusal=one.refusal or why)


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
