"""Which snapshots and refs of an Iceberg table may go: the specification's retention rules, over raw metadata. Pure.

Refs are judged first. Each branch that stays then keeps a run of its ancestors, from its head down to the first one that
no rule keeps; what no ref leads to keeps itself while it is young.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from lakewarden.foreign.json_text import integer_text
from lakewarden.formats.iceberg.metadata.document import snapshots_of
from lakewarden.formats.iceberg.metadata.history import snapshot_digest
from lakewarden.formats.iceberg.metadata.refs import BRANCH, MAIN, refs_of
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.policy import ExpiryPolicy

STAGED = ""  # the branch of a snapshot that no ref leads to
DEFAULT_MAX_AGE_MS = 5 * 24 * 3600 * 1000
FOREVER_MS = 2**63 - 1
STARTED_ON = "the snapshot that work in progress started on"
MS = timedelta(milliseconds=1)

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for a table where a ref says nothing of its own. Milliseconds."""

    now: int
    max_age: int
    keep_at_least: int
    max_ref_age: int
    keep_at_most: int | None
    keep: tuple[str, ...]
    in_use_since: int | None
    in_use_snapshots: Collection[int]
    checkpoint_age: int
    unarchived: Mapping[int, str]  # snapshots that history has not archived, each with what it is called

    @staticmethod
    def of(document: Document, policy: ExpiryPolicy, now: datetime) -> Rules:
        """The table's own properties, with the policy's values in their place where it has any."""
        own = document.get("properties") or {}
        age = policy.retain // MS if policy.retain is not None else _own(own, "max-snapshot-age-ms", DEFAULT_MAX_AGE_MS)
        ref_age = (
            policy.max_ref_age // MS if policy.max_ref_age is not None else _own(own, "max-ref-age-ms", FOREVER_MS)
        )
        return Rules(
            now=_ms(now),
            max_age=age,
            keep_at_least=policy.retain_min or _own(own, "min-snapshots-to-keep", 1),
            max_ref_age=ref_age,
            keep_at_most=policy.retain_max,
            keep=policy.keep,
            in_use_since=None if policy.in_use_since is None else _ms(policy.in_use_since),
            in_use_snapshots=policy.in_use_snapshots,
            checkpoint_age=policy.flink_checkpoint // MS,
            unarchived=_unarchived(document, policy),
        )


@dataclass(slots=True)
class Retention:
    """By snapshot id: the branch it is seen from, and why it goes or stays. By ref name: why it goes or stays.

    `whole_lines` are the snapshots of which none may be taken out of its line, whoever asks.
    """

    expired: dict[int, tuple[str, str]] = field(default_factory=dict)
    kept: dict[int, tuple[str, str]] = field(default_factory=dict)
    refs_expired: dict[str, str] = field(default_factory=dict)
    refs_kept: dict[str, str] = field(default_factory=dict)
    whole_lines: set[int] = field(default_factory=set)


def retention(
    document: Document, policy: ExpiryPolicy, now: datetime, removable: Mapping[str, int] | None = None
) -> Retention:
    """What may go. `removable`: of the refs, only these may, and only while they point at that snapshot.

    Raises UnsupportedTableError where the table's own rules cannot be read, or an explicit id must stay.
    """
    rules = Rules.of(document, policy, now)
    snapshots = {int(s["snapshot-id"]): s for s in snapshots_of(document)}
    found = Retention()
    refs = refs_of(document)
    _check_current(document, refs)
    for name, ref in refs.items():
        why = _ref_stays(name, ref, snapshots, rules)
        if why is None and removable is not None and removable.get(name) != int(ref["snapshot-id"]):
            why = "it was made or moved since the plan" if removable else "no ref goes before all its snapshots can"
        if why is None:
            found.refs_expired[name] = f"its newest snapshot is older than {_days(_ref_age(ref, rules))}"
        else:
            found.refs_kept[name] = why
    staying = {name: ref for name, ref in refs.items() if name in found.refs_kept}
    led_to: dict[int, str] = {}
    for number, name in _walk(staying, snapshots, rules, found):
        led_to.setdefault(number, name)
    for number, snapshot in snapshots.items():
        if number in found.kept:
            continue
        staged = number not in led_to
        if number in rules.in_use_snapshots:
            # A branch was rolled back, or goes: whoever reads files from it finds out at the commit, and until then reads.
            found.kept[number] = (led_to.get(number, STAGED), STARTED_ON)
            found.whole_lines.add(number)
        elif number in rules.unarchived:
            found.kept[number] = (led_to.get(number, STAGED), rules.unarchived[number])
            found.whole_lines.add(number)
        elif staged and _age(snapshot, rules) <= rules.max_age:
            found.kept[number] = (STAGED, f"staged, and younger than {_days(rules.max_age)}")
        else:
            found.expired[number] = (
                (STAGED, "no branch or tag leads to it")
                if staged
                else (led_to[number], _old(refs[led_to[number]], rules))
            )
    _explicit(found, staying, snapshots, policy)
    if policy.max_expire is None or len(found.expired) <= policy.max_expire:
        return found
    if found.refs_expired:
        # What only an expired ref leads to might have to stay for the next run, and then so must the ref.
        return retention(document, policy, now, removable={})
    return _limited(found, snapshots, policy.max_expire)


def _check_current(document: Document, refs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise where the two places that say which snapshot is current do not agree: readers follow one or the other."""
    current = document.get("current-snapshot-id")
    if current not in (None, -1) and int(refs[MAIN]["snapshot-id"]) != int(current):
        raise UnsupportedTableError(
            f"its branch main points at {refs[MAIN]['snapshot-id']} and current-snapshot-id at {current}; "
            "nothing of it is touched"
        )


def _ref_stays(name: str, ref: Mapping[str, Any], snapshots: Mapping[int, Document], rules: Rules) -> str | None:
    if name == MAIN:
        return "the main branch always stays"
    if any(name == pattern or fnmatchcase(name, pattern) for pattern in rules.keep):
        return "kept by the policy"
    head = snapshots.get(int(ref["snapshot-id"]))
    if head is None:
        # The format's own job removes it. We do not: whoever made it may be able to say what it meant.
        return "its snapshot is not there"
    limit = _ref_age(ref, rules)
    if _age(head, rules) <= limit:
        return "no age limit" if limit == FOREVER_MS else f"its newest snapshot is younger than {_days(limit)}"
    return None


def _walk(
    refs: Mapping[str, Mapping[str, Any]], snapshots: Mapping[int, Document], rules: Rules, found: Retention
) -> Iterator[tuple[int, str]]:
    """Every snapshot that a ref leads to, with that ref; those that stay are noted as kept."""
    for name, ref in refs.items():
        head = int(ref["snapshot-id"])
        if ref["type"] != BRANCH:
            if head in snapshots:
                found.kept.setdefault(head, (name, f"tag {name}"))
                yield head, name
            continue
        line = list(_ancestors(head, snapshots))
        yield from ((number, name) for number in line)
        floors = dict(_floors([snapshots[n] for n in line], rules))
        found.whole_lines.update(line[: max(floors, default=-1) + 1])
        for number, why in _branch_keeps([snapshots[n] for n in line], ref, floors, rules):
            found.kept.setdefault(number, (name, why))


def _branch_keeps(
    line: list[Document], ref: Mapping[str, Any], floors: Mapping[int, str], rules: Rules
) -> Iterator[tuple[int, str]]:
    """The run of snapshots that a branch keeps, newest first, each with its reason."""
    at_least = int(ref.get("min-snapshots-to-keep") or rules.keep_at_least)
    max_age = _max_age(ref, rules)
    lowest = max(floors, default=-1)
    for place, snapshot in enumerate(line):
        surplus = rules.keep_at_most is not None and place >= rules.keep_at_most
        if place == 0:
            why = "the head of its branch"
        elif place < at_least:
            why = f"one of the last {at_least}"
        elif place <= lowest:
            why = floors.get(place) or f"on the way to {floors[min(p for p in floors if p > place)]}"
        elif _age(snapshot, rules) <= max_age and not surplus:
            why = f"younger than {_days(max_age)}"
        else:
            return
        yield int(snapshot["snapshot-id"]), why


def _floors(line: list[Document], rules: Rules) -> Iterator[tuple[int, str]]:
    """Places in a branch's line down to which the line must stay whole, each with who needs it.

    A Flink job that starts again walks back from the head to the last checkpoint it committed; if it does not find it,
    it commits the same data twice. A compaction validates from the snapshot that it started on.
    """
    jobs: set[tuple[str, str]] = set()
    for place, snapshot in enumerate(line):
        summary = snapshot.get("summary") or {}
        job = (str(summary.get("flink.job-id")), str(summary.get("flink.operator-id")))
        if "flink.max-committed-checkpoint-id" in summary and job not in jobs:
            jobs.add(job)
            if _age(snapshot, rules) <= rules.checkpoint_age:
                yield place, f"the last checkpoint of Flink job {job[0]}"
    if rules.in_use_since is not None:
        since = (place for place, s in enumerate(line) if int(s["timestamp-ms"]) < rules.in_use_since)
        yield next(since, len(line) - 1), STARTED_ON
    for place, snapshot in enumerate(line):
        if int(snapshot["snapshot-id"]) in rules.in_use_snapshots:
            yield place, STARTED_ON
    # The oldest alone: whatever is newer stays with it.
    for place in range(len(line) - 1, -1, -1):
        if (why := rules.unarchived.get(int(line[place]["snapshot-id"]))) is not None:
            yield place, why
            break


def _explicit(
    found: Retention, staying: Mapping[str, Mapping[str, Any]], snapshots: Mapping[int, Document], policy: ExpiryPolicy
) -> None:
    """Ids that the policy names go too, unless something still needs their place in a line."""
    for number in policy.expire_ids:
        if number not in snapshots:
            continue
        names = [name for name, ref in staying.items() if int(ref["snapshot-id"]) == number]
        if names:
            raise UnsupportedTableError(
                f"snapshot_expiry.expire_ids names {number}, at which {names[0]} points; nothing of this table is touched"
            )
        if number not in found.whole_lines:
            branch, _ = found.kept.pop(number, (STAGED, ""))
            found.expired[number] = (branch, "named by the policy")


def _limited(found: Retention, snapshots: Mapping[int, Document], most: int) -> Retention:
    """No more than the policy lets go in one run, oldest first."""
    oldest = sorted(found.expired, key=lambda number: (int(snapshots[number]["timestamp-ms"]), number))
    for number in oldest[most:]:
        branch, _ = found.expired.pop(number)
        found.kept[number] = (branch, f"no more than {most} go in one run")
    return found


def _ancestors(head: int, snapshots: Mapping[int, Document]) -> Iterator[int]:
    """A snapshot and its parents, as far as they are there."""
    seen: set[int] = set()
    number: int | None = head
    while number is not None and number in snapshots and number not in seen:
        seen.add(number)
        yield number
        parent = snapshots[number].get("parent-snapshot-id")
        number = None if parent is None else int(parent)


def _unarchived(document: Document, policy: ExpiryPolicy) -> dict[int, str]:
    """What history has not archived, where it is asked."""
    if (archived := policy.archived) is None:
        return {}
    named = ((int(s["snapshot-id"]), archived.why_not(snapshot_digest(s))) for s in snapshots_of(document))
    return {number: why for number, why in named if why is not None}


def _own(properties: Mapping[str, Any], key: str, default: int) -> int:
    text = properties.get(f"history.expire.{key}")
    if text is None:
        return default
    try:
        return integer_text(text)
    except (TypeError, ValueError):
        raise UnsupportedTableError(
            f"its property history.expire.{key} is {text!r}, which is not a number; nothing of it is touched"
        ) from None


def _age(snapshot: Document, rules: Rules) -> int:
    return rules.now - int(snapshot["timestamp-ms"])


def _ref_age(ref: Mapping[str, Any], rules: Rules) -> int:
    return int(ref.get("max-ref-age-ms") or rules.max_ref_age)


def _max_age(ref: Mapping[str, Any], rules: Rules) -> int:
    return int(ref.get("max-snapshot-age-ms") or rules.max_age)


def _old(ref: Mapping[str, Any], rules: Rules) -> str:
    limit = _days(_max_age(ref, rules))
    if rules.keep_at_most is not None:
        return f"older than {limit}, or more than {rules.keep_at_most} came after it"
    return f"older than {limit}"


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


def _days(ms: int) -> str:
    """A length of time as people say it."""
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if ms == length:
            return f"1 {unit}"
        if ms >= 2 * length:
            return f"{ms / length:.3g} {unit}s"
    return f"{ms} ms"
