"""What a branch is worth: broken, detached, inactive, diverged or healthy, and whether a policy lets it go. Pure.

A branch is a name that leads to a snapshot of a table: an Iceberg ref, a Paimon branch, or a table as a branch of its
whole catalog (Nessie) has it. Only a branch that is proven to be broken goes by default: any other one can be read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Protocol
from unicodedata import normalize

from lakewarden.model.errors import Refusal
from lakewarden.model.table import TableState

LEAST_FOR_A_BRAKE = 10  # of few branches, all may be stale


class BranchState(StrEnum):
    """Worst first; a branch may be in several, and is called by its worst."""

    BROKEN = "broken"
    DETACHED = "detached"
    INACTIVE = "inactive"
    DIVERGED = "diverged"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BranchPolicy:
    """Which branches may go. `min_age`: how long a branch must have been there, as far as that can be proven."""

    enabled: bool
    dry_run: bool
    remove: frozenset[BranchState]
    protect: tuple[str, ...]
    inactive: timedelta | None
    min_age: timedelta
    max_remove_share: float

    @staticmethod
    def of(values: Mapping[str, Any]) -> BranchPolicy:
        """The policy that these values of `[stale_branches]` spell, under the user's names and units."""
        days = values["inactive_days"]
        return BranchPolicy(
            enabled=values["enabled"],
            dry_run=values["dry_run"],
            remove=frozenset(map(BranchState, values["remove"])),
            protect=tuple(values["protect"]),
            inactive=None if days is None else timedelta(days=days),
            min_age=timedelta(hours=values["min_age_hours"]),
            max_remove_share=values["max_remove_share"],
        )

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {
            "dry_run": self.dry_run,
            "remove": [str(state) for state in BranchState if state in self.remove],
            "protect": list(self.protect),
            "inactive_days": None if self.inactive is None else self.inactive / timedelta(days=1),
            "min_age_hours": self.min_age / timedelta(hours=1),
            "max_remove_share": self.max_remove_share,
        }


def strictest(policies: Sequence[BranchPolicy]) -> BranchPolicy:
    """What every one of several policies allows: of a branch that several catalogs show, each of them has a say."""
    days = [one.inactive for one in policies if one.inactive is not None]
    return BranchPolicy(
        enabled=all(one.enabled for one in policies),
        dry_run=any(one.dry_run for one in policies),
        remove=frozenset.intersection(*(one.remove for one in policies)),
        protect=tuple(dict.fromkeys(pattern for one in policies for pattern in one.protect)),
        inactive=max(days, default=None),
        min_age=max(one.min_age for one in policies),
        max_remove_share=min(one.max_remove_share for one in policies),
    )


@dataclass(frozen=True, slots=True)
class BranchSight:
    """One branch of one table, as metadata alone shows it.

    `standing` is what its history says: detached, diverged or healthy; unknown, with the reason in `why`, if its metadata
    cannot be read. `needs` are the files without which its newest snapshot cannot be read; `witnesses` are files of main
    that must be there, or nothing that is gone beside them counts as gone. `record` is what the ledger
    keeps, so that it can be brought back: `branch` is its name, `at` where it is; two sights are of the same branch,
    unmoved, if their records are equal.
    """

    name: str
    table: str
    snapshot_id: int
    committed_ms: int
    standing: BranchState
    why: str
    needs: tuple[str, ...]
    record: Mapping[str, Any]
    witnesses: tuple[str, ...] = ()

    @property
    def branch(self) -> str:
        """The branch's name, whatever its place calls it by."""
        return str(self.record["branch"])

    @property
    def at(self) -> str:
        return str(self.record["at"])


@dataclass(frozen=True, slots=True)
class BranchPlace:
    """Where branches are removed together: a table with its refs, or a branch of a catalog with its tables.

    `metadata_location` is what the place was read at: a metadata file, or a commit of a catalog. `others` counts what a
    catalog branch holds beside these tables. `report_only` says why nothing of it can be removed here.
    """

    identifier: str
    uuid: str
    metadata_location: str
    sights: tuple[BranchSight, ...] = ()
    of_catalog: bool = False
    others: int = 0
    refusal: Refusal | None = None
    report_only: str | None = None

    def emptied_by(self, names: Collection[str]) -> bool:
        """Whether nothing is left of a branch of the catalog when these go: then it goes as a whole."""
        return self.of_catalog and not self.others and {sight.name for sight in self.sights} <= set(names)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a branch is, and whether it goes; `reason` says why it is so, `kept` why it stays although the policy names it."""

    states: tuple[BranchState, ...]
    reason: str
    goes: bool = False
    kept: str | None = None
    gone: tuple[str, ...] = ()

    @property
    def state(self) -> BranchState:
        return self.states[0]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the stores say of files: gone for certain, or not to be told and why. All others are there."""

    gone: frozenset[str] = frozenset()
    unknown: Mapping[str, str] = field(default_factory=dict)


def judge(
    sight: BranchSight, place: BranchPlace, seen: Seen, policy: BranchPolicy, now: datetime, *, in_use: bool
) -> Judgement:
    """What a branch is, by its history and its files, and whether the policy lets it go now."""
    states, reason, gone = _states(sight, seen, policy, now)
    named = [state for state in states if state in policy.remove]
    if not named:
        return Judgement(states, reason, gone=gone)
    kept = _kept(sight, place, policy, now, in_use=in_use)
    return Judgement(states, reason, goes=kept is None, kept=kept, gone=gone)


def _states(
    sight: BranchSight, seen: Seen, policy: BranchPolicy, now: datetime
) -> tuple[tuple[BranchState, ...], str, tuple[str, ...]]:
    if sight.standing is BranchState.UNKNOWN:
        return (BranchState.UNKNOWN,), sight.why, ()
    unclear = next((uri for uri in (*sight.needs, *sight.witnesses) if uri in seen.unknown), None)
    gone = tuple(uri for uri in sight.needs if uri in seen.gone)
    if unclear is not None:
        return (BranchState.UNKNOWN,), f"{unclear}: {seen.unknown[unclear]}", ()
    if gone and (lost := next((uri for uri in sight.witnesses if uri in seen.gone), None)) is not None:
        # Whatever took main's own files took these: a lost disk, not a stale branch.
        return (BranchState.UNKNOWN,), f"main's own {lost} is gone too: restore the table first", ()
    found = [BranchState.BROKEN] if gone else []
    if sight.standing is BranchState.DETACHED:
        found.append(BranchState.DETACHED)
    quiet = now - instant(sight.committed_ms)
    # A time that nobody says is no proof of a long silence.
    if policy.inactive is not None and sight.committed_ms > 0 and quiet >= policy.inactive:
        found.append(BranchState.INACTIVE)
    if sight.standing is BranchState.DIVERGED:
        found.append(BranchState.DIVERGED)
    if gone:
        return tuple(found), f"{gone[0].rpartition('/')[2]} is gone", gone
    if not found:
        return (BranchState.HEALTHY,), sight.why, ()
    if found[0] is BranchState.INACTIVE:
        return tuple(found), f"no commit for {quiet.days} days", ()
    return tuple(found), sight.why, ()


def _kept(sight: BranchSight, place: BranchPlace, policy: BranchPolicy, now: datetime, *, in_use: bool) -> str | None:
    """Why a branch stays whatever it is."""
    if (pattern := protecting(policy.protect, sight.branch)) is not None:
        return f"protected by {pattern!r}"
    if in_use:
        return "a writer is at work on the table"
    if place.report_only is not None:
        return place.report_only
    if policy.min_age and sight.committed_ms <= 0:
        return "nothing says when its newest commit was made"
    if now - instant(sight.committed_ms) < policy.min_age:
        return f"its newest commit is younger than {policy.min_age / timedelta(hours=1):g} h"
    return None


def protecting(patterns: Sequence[str], name: str) -> str | None:
    """The pattern that protects a branch. `etl[1]` is a pattern of `etl1`, and whoever writes it may mean its own name too."""
    composed = normalize("NFC", name)  # one name of two spellings, by two keyboards
    for pattern in patterns:
        if name == pattern or fnmatchcase(composed, normalize("NFC", pattern)):
            return pattern
    return None


def instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def too_many(going: int, branches: int, share: float) -> str | None:
    """Why so many branches of one catalog are not removed at once without a person's word; None if they may."""
    if going <= LEAST_FOR_A_BRAKE or going <= share * branches:
        return None
    return f"{going} of the {branches} branches of its catalog would go (limit {share:.0%})"


class BranchKeeper(Protocol):
    """How a format's catalog shows its branches, and how they are removed and brought back."""

    def survey(self, states: Sequence[TableState]) -> Sequence[BranchPlace]:
        """Every place with branches, by the tables as they were loaded. Raises LakewardenError."""
        ...

    def look(self, identifier: str) -> BranchPlace | None:
        """One place as it is now; None if it is gone. Raises LakewardenError."""
        ...

    def shows(self) -> str | None:
        """The branch of a whole catalog as which the configured catalog shows itself; None where there is none."""
        ...

    def still_read(self, place: BranchPlace, sight: BranchSight) -> str | None:
        """Why a branch whose files are gone may be readable all the same; None if its catalog cannot read it either."""
        ...

    def unchanged_since(self, place: BranchPlace, sight: BranchSight, instant: datetime) -> bool | None:
        """Whether the branch has been there since then, as it is now and all the while, by the table's own history.

        None if that does not tell.
        """
        ...

    def remove(
        self, place: BranchPlace, names: Collection[str], now: datetime, properties: Mapping[str, str]
    ) -> Mapping[str, int]:
        """Remove these, if nothing moved since `place` was looked at; how many of each kind. Raises TableMovedError."""
        ...

    def restore(self, identifier: str, record: Mapping[str, Any], now: datetime) -> None:
        """Make a branch again as its record has it. Raises RestoreError if it is there, or its snapshot is not."""
        ...
