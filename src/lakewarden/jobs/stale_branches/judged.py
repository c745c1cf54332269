"""Every branch of a place with what it is and whether it goes: by its files, its writers and its age."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain

from lakewarden.model.branches import BranchKeeper, BranchPlace, BranchPolicy, BranchSight, Judgement, Seen, judge
from lakewarden.model.errors import LakewardenError, Refusal, without_claim
from lakewarden.model.policy import Job
from lakewarden.model.run import RESTORED
from lakewarden.model.table import name_within
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.clocks import disagreement
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
        self._back: dict[datetime, frozenset[str]] = {}
        self._shown: dict[str, str] | None = None
        self._clocks: dict[str, Refusal | None] = {}

    def of(self, keeper: BranchKeeper, place: BranchPlace, policy: BranchPolicy, seen: Seen) -> Iterator[Judged]:
        """Each branch of a place. What would go is asked for once more: of its catalog, and by its age."""
        for sight in place.sights:
            found = judge(sight, place, seen, policy, self._now, in_use=self._in_use(sight, place))
            if found.goes and (kept := self._stays(keeper, place, sight, policy, found)) is not None:
                found = replace(found, goes=False, kept=kept)
            yield Judged(sight, found)

    def _in_use(self, sight: BranchSight, place: BranchPlace) -> bool:
        names = {sight.table}
        if place.of_catalog:
            # Whoever writes to a branch may call the table by a catalog of its own, on the same server.
            within = name_within(sight.table)
            names |= {name for name in self._at_work.since if name_within(name) == within}
        found = [self._at_work.on(name, place.uuid) for name in names]
        return any(one.since is not None or one.snapshots for one in found)

    def _stays(
        self, keeper: BranchKeeper, place: BranchPlace, sight: BranchSight, policy: BranchPolicy, found: Judgement
    ) -> str | None:
        if place.of_catalog and (kept := self._in_view(sight.branch) or self._clock_off(sight)) is not None:
            return kept
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
        unchanged = keeper.unchanged_since(place, sight, since)
        if unchanged is None:
            # An earlier plan tells of its own moment alone, so it does not speak against a history that tells of all.
            seen = self._marks(policy.min_age).get(place.identifier, {}).get(sight.name)
            unchanged = seen == sight.at and told(place.identifier, sight.name) not in self._brought_back(since)
        if unchanged:
            return None
        return f"nothing shows that it has been there for {policy.min_age / timedelta(hours=1):g} h"

    def _in_view(self, branch: str) -> str | None:
        """Why a branch of a catalog is in use: a configured catalog shows it. Of whichever server: two may be one."""
        if self._shown is None:
            shown: dict[str, str] = {}
            for name, format in self._deployment.formats.items():
                try:
                    of = format.branch_keeper.shows() if format.branch_keeper is not None else None
                except LakewardenError as error:
                    return f"catalog {name} could not be asked which branch it shows ({error.message})"
                if of:
                    shown[of] = name
            self._shown = shown
        return f"catalog {self._shown[branch]} shows a branch of that name" if branch in self._shown else None

    def _clock_off(self, sight: BranchSight) -> str | None:
        """Why no age is believed of a branch of a catalog, of whose tables no other job asks a store for its time."""
        for store in dict.fromkeys(FileUri.parse(uri).store for uri in sight.needs):
            if store not in self._clocks:
                self._clocks[store] = disagreement(self._deployment, store)
            if (off := self._clocks[store]) is not None:
                return f"its age cannot be told: {without_claim(off.message)}"
        return None

    def _brought_back(self, since: datetime) -> frozenset[str]:
        """What `restore` has made again since: whoever does that wants it, though it looks as old as it was."""
        if since not in self._back:
            runs = self._deployment.ledger.runs
            known = runs.list(None, Job.STALE_BRANCHES)
            # A restore is a run without a plan; what it made again is on the record of the run that had removed it.
            lately = any(run.plan_id is None and (run.finished_at or self._now) > since for run in known)
            steps = (step for run in known if lately and run.plan_id for step in runs.steps(run.run_id))
            back = (step.detail["branches"] for step in steps if step.name == RESTORED and step.at > since)
            self._back[since] = frozenset(chain.from_iterable(back))
        return self._back[since]

    def _marks(self, age: timedelta) -> Marks:
        if age not in self._earlier:
            plans = self._deployment.ledger.plans
            saved = plans.newest_before(Job.STALE_BRANCHES, self._now - age)
            header = plans.header(saved.plan_id) if saved else None
            self._earlier[age] = {t.identifier: t.detail.get("seen", {}) for t in (header.tables if header else ())}
        return self._earlier[age]


def told(place: str, name: str) -> str:
    """A branch as a record names what came back."""
    return f"{place} {name}"
