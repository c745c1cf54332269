"""Every branch of a place with what it is and whether it goes: by its files, its writers and its age."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.model.branches import BranchKeeper, BranchPlace, BranchPolicy, BranchSight, Judgement, Seen, judge
from lakewarden.model.errors import LakewardenError
from lakewarden.model.policy import Job
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.writers import Writers, writers

# Where each branch of each place was when an earlier plan looked: by the place's name, then the branch's.
Marks = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Judged:
    """One branch and what was found of it."""

    sight: BranchSight
    found: Judgement


class Judge:
    """What is known beside the branches themselves, at one moment: who is at work, and what earlier plans saw."""

    def __init__(self, deployment: Deployment, now: datetime) -> None:
        self._deployment = deployment
        self._now = now
        self._at_work: Writers = writers(deployment)
        self._earlier: dict[timedelta, Marks] = {}

    def of(self, keeper: BranchKeeper, place: BranchPlace, policy: BranchPolicy, seen: Seen) -> Iterator[Judged]:
        """Each branch of a place. What would go is asked for once more: of its catalog, and by its age."""
        for sight in place.sights:
            found = judge(sight, place, seen, policy, self._now, in_use=self._in_use(sight, place))
            if found.goes and (kept := self._stays(keeper, place, sight, policy, found)) is not None:
                found = replace(found, goes=False, kept=kept)
            yield Judged(sight, found)

    def _in_use(self, sight: BranchSight, place: BranchPlace) -> bool:
        found = self._at_work.on(sight.table, place.uuid)
        return found.since is not None or bool(found.snapshots)

    def _stays(
        self, keeper: BranchKeeper, place: BranchPlace, sight: BranchSight, policy: BranchPolicy, found: Judgement
    ) -> str | None:
        if found.gone:
            try:
                kept = keeper.still_read(place, sight)
            except LakewardenError as error:
                kept = f"its catalog could not be asked whether it still reads it ({error.message})"
            if kept is not None:
                return kept
        if not policy.min_age:
            return None
        # A ref does not say when it was made, and may be made anew at an old snapshot: by somebody who needs that.
        since = self._now - policy.min_age
        if self._marks(policy.min_age).get(place.identifier, {}).get(sight.name) == sight.at:
            return None
        if keeper.unchanged_since(place, sight, since):
            return None
        return f"nothing shows that it has been there for {policy.min_age / timedelta(hours=1):g} h"

    def _marks(self, age: timedelta) -> Marks:
        if age not in self._earlier:
            plans = self._deployment.ledger.plans
            saved = plans.newest_before(Job.STALE_BRANCHES, self._now - age)
            header = plans.header(saved.plan_id) if saved else None
            self._earlier[age] = {t.identifier: t.detail.get("seen", {}) for t in (header.tables if header else ())}
        return self._earlier[age]
