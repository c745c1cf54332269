"""Which snapshots and changelogs of a branch may go, and why each other one stays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from lakewarden.formats.paimon.metadata.history import snapshot_digest
from lakewarden.formats.paimon.metadata.options import bad_option, duration, in_words, truth, whole
from lakewarden.formats.paimon.metadata.table import Branch, Snapshot
from lakewarden.model.errors import ConfigError, Refusal
from lakewarden.model.policy import AgeRule, ExpiryPolicy

_NO_LIMIT = 2**31 - 1  # what Paimon takes for "keep them all"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A policy that leaves every limit to the table's own options.
_OWN_LIMITS = ExpiryPolicy(
    enabled=False,
    dry_run=True,
    retain_min=None,
    retain_max=None,
    retain=None,
    max_expire=None,
    age_rule=AgeRule.SUCCESSOR,
    keep=(),
    max_ref_age=None,
    expire_ids=(),
    flink_checkpoint=timedelta(),
)


@dataclass(frozen=True, slots=True)
class Retention:
    """The ids that go, a continuous run up to `end` (exclusive, and there), and a reason for each that stays."""

    expired: tuple[int, ...] = ()
    end: int | None = None
    kept: Mapping[int, str] = field(default_factory=dict)
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How much of a history stays: so many at least, so many at most, so long, and so many gone at a time."""

    retain_min: int
    retain_max: int
    retain: timedelta
    max_expire: int
    age_rule: AgeRule


def expirable(branch: Branch, policy: ExpiryPolicy, now: datetime) -> Retention:
    """The snapshots of a branch that may go now. Options that contradict themselves come back as a refusal."""
    try:
        rules = snapshot_rules(branch.schema.options, policy)
        free = consumers_guard_changelogs_only(branch.schema.options, policy)
    except ConfigError as error:
        return Retention(refusal=error.refusal())
    if branch.latest is None:
        return Retention()
    readers = {} if free else _readers(branch)
    if policy.in_use_snapshots:
        # Whoever rewrites files needs the snapshot that it started on, and those after it, as a consumer does.
        readers["a compaction reads from"] = min(policy.in_use_snapshots)
    readers |= _unarchived(branch.snapshots, policy)
    return _Window(branch.snapshots, branch.latest.id, rules, readers, now, "snapshot").retention()


def _readers(branch: Branch) -> dict[str, int]:
    return {f"consumer {name} reads from": number for name, number in branch.consumers.items()}


def expirable_changelogs(branch: Branch, policy: ExpiryPolicy, now: datetime) -> Retention:
    """The changelogs that outlived their snapshots and may go now; never the newest of them.

    Consumers always count here, and a changelog's own age: it has no successor that readers would start from.
    """
    try:
        rules = changelog_rules(branch.schema.options, policy)
        apart = decoupled(branch.schema.options, policy)
    except ConfigError as error:
        return Retention(refusal=error.refusal())
    if branch.latest is None or not branch.changelogs:
        return Retention()
    if not apart:
        return Retention(kept={c.id: "changelogs no longer outlive snapshots here" for c in branch.changelogs})
    readers = _readers(branch) | _unarchived(branch.changelogs, policy)
    return _Window(branch.changelogs, branch.latest.id, rules, readers, now, "changelog").retention()


def _unarchived(several: Sequence[Snapshot], policy: ExpiryPolicy) -> dict[str, int]:
    """The oldest that history has not archived, where it is asked: it and what comes after it stays."""
    if (archived := policy.archived) is None:
        return {}
    named = ((s.id, archived.why_not(snapshot_digest(s))) for s in several)
    oldest = min(((number, why) for number, why in named if why is not None), default=None)
    return {} if oldest is None else {f"{oldest[1]}:": oldest[0]}


def decoupled(options: Mapping[str, str], policy: ExpiryPolicy | None = None) -> bool:
    """Whether changelogs outlive their snapshots: one of their three limits is wider. Raises ConfigError."""
    snapshots = snapshot_rules(options, policy or _OWN_LIMITS)
    changelogs = changelog_rules(options, policy or _OWN_LIMITS)
    return (
        changelogs.retain_max > snapshots.retain_max
        or changelogs.retain > snapshots.retain
        or changelogs.retain_min > snapshots.retain_min
    )


def consumers_guard_changelogs_only(options: Mapping[str, str], policy: ExpiryPolicy | None = None) -> bool:
    """Whether a consumer lets snapshots go because it can go on reading from changelogs. Raises ConfigError."""
    return truth(options, "consumer.changelog-only") and decoupled(options, policy)


def snapshot_rules(options: Mapping[str, str], policy: ExpiryPolicy) -> Rules:
    """The policy's limits, and the table's own where the policy has none. Raises ConfigError."""
    retain = duration(options, "snapshot.time-retained")
    own = Rules(
        retain_min=_at_least(1, options, "snapshot.num-retained.min", 10),
        retain_max=_at_least(1, options, "snapshot.num-retained.max", _NO_LIMIT),
        retain=timedelta(hours=1) if retain is None else retain,
        max_expire=_at_least(0, options, "snapshot.expire.limit", 50),
        age_rule=policy.age_rule,
    )
    rules = Rules(
        retain_min=own.retain_min if policy.retain_min is None else policy.retain_min,
        retain_max=own.retain_max if policy.retain_max is None else policy.retain_max,
        retain=own.retain if policy.retain is None else policy.retain,
        max_expire=own.max_expire if policy.max_expire is None else policy.max_expire,
        age_rule=own.age_rule,
    )
    return _checked(rules, "snapshot.num-retained.max")


def changelog_rules(options: Mapping[str, str], policy: ExpiryPolicy) -> Rules:
    """The limits of changelogs that outlive their snapshots; those of snapshots where none are set."""
    snapshots = snapshot_rules(options, policy)
    retain = duration(options, "changelog.time-retained")
    rules = replace(
        snapshots,
        retain_min=_at_least(1, options, "changelog.num-retained.min", snapshots.retain_min),
        retain_max=_at_least(1, options, "changelog.num-retained.max", snapshots.retain_max),
        retain=snapshots.retain if retain is None else retain,
        age_rule=AgeRule.OWN,
    )
    return _checked(rules, "changelog.num-retained.max")


def _checked(rules: Rules, key: str) -> Rules:
    if rules.retain_max < rules.retain_min:
        raise bad_option(key, rules.retain_max, f"is below the {rules.retain_min} that must stay")
    return rules


def _at_least(least: int, options: Mapping[str, str], key: str, default: int) -> int:
    number = whole(options, key, default)
    assert number is not None
    if number < least:
        raise bad_option(key, number, f"is below {least}")
    return number


class _Window:
    """One history, oldest first, and where its expiry has to stop. Ids may be missing: somebody removed them by hand."""

    def __init__(
        self,
        history: Sequence[Snapshot],
        latest: int,
        rules: Rules,
        readers: Mapping[str, int],
        now: datetime,
        word: str,
    ) -> None:
        self._times = {entry.id: entry.time_ms for entry in history}
        self._ids = sorted(self._times)
        self._latest = latest
        self._rules = rules
        self._reader = min(readers, key=lambda name: (readers[name], name), default=None)
        self._reads_from = readers[self._reader] if self._reader is not None else None
        self._word = word
        # The window moves at the pace of whole milliseconds, as the times in the files do.
        self._cutoff = (now - _EPOCH) // timedelta(milliseconds=1) - rules.retain // timedelta(milliseconds=1)

    def retention(self) -> Retention:
        stop = self._latest - self._rules.retain_min + 1
        if self._reads_from is not None:
            stop = min(stop, self._reads_from)
        young = self._first_young(stop)
        stop = stop if young is None else young
        begin, last = self._run_up_to(stop)
        end = min(last, begin + self._rules.max_expire)
        expired = tuple(i for i in self._ids if begin <= i < end)
        kept = {i: self._reason(i, young, begin) for i in self._ids if not begin <= i < end}
        return Retention(expired, end if expired else None, kept)

    def _first_young(self, stop: int) -> int | None:
        """The first id that its age keeps; what is beyond the greatest number to retain goes at any age."""
        oldest = self._latest - self._rules.retain_max + 1
        return next((i for i in self._ids if oldest <= i < stop and self._is_young(i)), None)

    def _is_young(self, number: int) -> bool:
        probe = number + 1 if self._rules.age_rule is AgeRule.SUCCESSOR else number
        return probe in self._times and self._cutoff <= self._times[probe]

    def _run_up_to(self, stop: int) -> tuple[int, int]:
        """The last run of ids without a gap that reaches up to `stop`: its first and its last id.

        What lies before a gap is left alone: whether its files were already half removed is unknown.
        """
        place = bisect_right(self._ids, stop) - 1
        if place < 0:
            return stop, stop
        first = place
        while first > 0 and self._ids[first - 1] == self._ids[first] - 1:
            first -= 1
        return self._ids[first], self._ids[place]

    def _reason(self, number: int, young: int | None, begin: int) -> str:
        rules = self._rules
        if number == self._latest:
            return "the latest snapshot"
        if number > self._latest - rules.retain_min:
            return f"one of the last {rules.retain_min}"
        if self._reads_from is not None and number >= self._reads_from:
            return f"{self._reader} {self._reads_from}"
        if self._word == "changelog" and number == self._ids[-1]:
            return "the newest changelog"
        if young is not None and number >= young:
            if not self._is_young(number):
                return f"comes after {self._word} {young}, which is too young"
            length = in_words(rules.retain)
            if rules.age_rule is AgeRule.SUCCESSOR:
                return f"was the latest until less than {length} ago"
            return f"younger than {length}"
        if number < begin:
            return f"lies before a gap: {self._word} {begin - 1} is missing"
        if number >= begin + rules.max_expire:
            return f"limit of {rules.max_expire} at a time"
        return f"lies before a gap: {self._word} {number + 1} is missing"
