"""Which snapshots and changelogs may go, against Paimon's own rules written down a second time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.paimon.expiry.retention import Retention, decoupled, expirable, expirable_changelogs
from lakewarden.formats.paimon.metadata.options import in_words, parse_duration
from lakewarden.formats.paimon.metadata.table import Branch, Schema, Snapshot
from lakewarden.model.policy import AgeRule
from tests.support.policies import expiry_policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DEFAULT = expiry_policy()
OLD = {"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"}


def snapshot(number: int, age: timedelta) -> Snapshot:
    time_ms = int((NOW - age).timestamp() * 1000)
    return Snapshot(
        number, 0, "b", "d", None, None, None, None, None, None, "writer", number, "APPEND", time_ms, raw=b"{}"
    )


def branch(
    ids: Sequence[int],
    options: Mapping[str, str] | None = None,
    ages: Mapping[int, timedelta] | None = None,
    consumers: Mapping[str, int] | None = None,
    changelogs: Sequence[int] = (),
) -> Branch:
    """A history; a snapshot is ten hours old unless `ages` says otherwise."""
    schema = Schema(0, (), (), (), options or {})
    made = tuple(snapshot(i, (ages or {}).get(i, 10 * HOUR)) for i in ids)
    older = tuple(snapshot(i, (ages or {}).get(i, 10 * HOUR)) for i in changelogs)
    return Branch("main", "file:///t/", schema, made, changelogs=older, consumers=consumers or {})


def ages(hours: Sequence[float], first: int = 1) -> dict[int, timedelta]:
    return {first + i: hour * HOUR for i, hour in enumerate(hours)}


def test_the_defaults_are_paimons() -> None:
    found = expirable(branch(range(1, 101)), DEFAULT, NOW)
    assert found.expired == tuple(range(1, 51))
    assert found.end == 51
    assert found.kept[51] == "limit of 50 at a time"
    assert found.kept[91] == "one of the last 10"
    assert found.kept[100] == "the latest snapshot"
    assert set(found.expired) | set(found.kept) == set(range(1, 101))


def test_nothing_goes_from_no_history_or_a_short_one() -> None:
    assert expirable(branch([]), DEFAULT, NOW) == Retention()
    found = expirable(branch(range(1, 11)), DEFAULT, NOW)
    assert (found.expired, found.end) == ((), None)


@pytest.mark.parametrize(
    ("rule", "expired", "reason"),
    [
        (AgeRule.OWN, (1, 2, 3), "younger than 1 h"),
        (AgeRule.SUCCESSOR, (1, 2), "was the latest until less than 1 h ago"),
    ],
)
def test_whose_age_counts(rule: AgeRule, expired: tuple[int, ...], reason: str) -> None:
    table = branch(range(1, 6), {"snapshot.num-retained.min": "1"}, ages([5, 4, 3, 0.5, 0.1]))
    found = expirable(table, expiry_policy(age_rule=rule), NOW)
    assert found.expired == expired
    assert found.kept[expired[-1] + 1] == reason


def test_exactly_at_the_limit_a_snapshot_stays() -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "2 h"}
    table = branch(range(1, 4), options, ages([3, 2, 1]))
    policy = expiry_policy(age_rule=AgeRule.OWN)
    assert expirable(table, policy, NOW).expired == (1,)
    assert expirable(table, policy, NOW + timedelta(milliseconds=1)).expired == (1, 2)


def test_more_than_the_greatest_number_go_at_any_age() -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.time-retained": "9 d"}
    assert expirable(branch(range(1, 11), options), DEFAULT, NOW).expired == tuple(range(1, 8))


def test_a_consumer_stops_it() -> None:
    found = expirable(branch(range(1, 11), OLD, consumers={"c2": 6, "c1": 4}), DEFAULT, NOW)
    assert (found.expired, found.end) == ((1, 2, 3), 4)
    assert found.kept[4] == "consumer c1 reads from 4"


def test_files_that_are_being_rewritten_stop_it() -> None:
    changelog_only = {
        **OLD,
        "consumer.changelog-only": "true",
        "changelog.num-retained.max": "9",
        "changelog.num-retained.min": "9",
    }
    for options in (OLD, changelog_only):
        found = expirable(branch(range(1, 11), options), replace(DEFAULT, in_use_snapshots={7, 5}), NOW)
        assert found.expired == (1, 2, 3, 4)
        assert found.kept[5] == "a compaction reads from 5"


def test_a_consumer_that_can_read_changelogs_stops_only_those() -> None:
    options = {**OLD, "consumer.changelog-only": "true"}
    consumers = {"c1": 4}
    # Changelogs go with their snapshots, so the consumer still needs those.
    assert expirable(branch(range(1, 11), options, consumers=consumers), DEFAULT, NOW).end == 4
    options["changelog.num-retained.min"] = "8"
    table = branch(range(5, 11), options, consumers=consumers, changelogs=range(1, 5))
    assert expirable(table, DEFAULT, NOW).end == 10
    found = expirable_changelogs(table, DEFAULT, NOW)
    assert found.expired == (1, 2)
    assert found.kept[3] == "one of the last 8"


def test_the_policy_wins_over_the_options() -> None:
    options = {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "7", "snapshot.expire.limit": "2"}
    table = branch(range(1, 21), options)
    assert expirable(table, DEFAULT, NOW).expired == (1, 2)
    assert expirable(table, expiry_policy(max_expire=4), NOW).expired == (1, 2, 3, 4)
    wide = expiry_policy(max_expire=100, retain_min=3, retain_max=4, retain=timedelta(days=1))
    assert expirable(table, wide, NOW).expired == tuple(range(1, 17))
    assert expirable(table, expiry_policy(retain=timedelta(days=1), max_expire=100), NOW).expired == tuple(range(1, 14))


def test_only_what_is_behind_the_last_gap_expires() -> None:
    """Counting from the oldest id would stop for ever: the limit ends inside the gap."""
    found = expirable(branch([1, 2, *range(90, 100)], {**OLD, "snapshot.expire.limit": "3"}), DEFAULT, NOW)
    assert (found.expired, found.end) == ((90, 91, 92), 93)
    assert found.kept[1] == "lies before a gap: snapshot 89 is missing"
    assert found.kept[93] == "limit of 3 at a time"


def test_a_missing_end_is_never_the_end() -> None:
    found = expirable(branch([1, 2, 3, 5], {**OLD, "snapshot.num-retained.min": "2"}), DEFAULT, NOW)
    assert (found.expired, found.end) == ((1, 2), 3)
    assert found.kept[3] == "lies before a gap: snapshot 4 is missing"


def test_a_later_older_snapshot_stays_behind_a_younger_one() -> None:
    table = branch(range(1, 5), {"snapshot.num-retained.min": "1"}, ages([5, 0.5, 5, 5]))
    found = expirable(table, expiry_policy(age_rule=AgeRule.OWN), NOW)
    assert found.expired == (1,)
    assert found.kept[3] == "comes after snapshot 2, which is too young"


@pytest.mark.parametrize(
    "options",
    [
        {"snapshot.num-retained.min": "0"},
        {"snapshot.num-retained.min": "ten"},
        {"snapshot.num-retained.max": "0"},
        {"snapshot.num-retained.max": "9"},
        {"snapshot.time-retained": "an hour"},
        {"snapshot.time-retained": "PT1H"},
        {"snapshot.expire.limit": "-1"},
        {"consumer.changelog-only": "yes"},
        {"consumer.changelog-only": "true", "changelog.num-retained.max": "5"},
    ],
)
def test_options_that_make_no_sense_refuse_the_table(options: Mapping[str, str]) -> None:
    found = expirable(branch(range(1, 101), options), DEFAULT, NOW)
    assert found.refusal is not None
    assert found.refusal.code == "LW-CONF-001"
    assert next(iter(reversed(options))) in found.refusal.message
    assert not found.expired


def test_a_limit_of_zero_expires_nothing() -> None:
    assert expirable(branch(range(1, 101), {"snapshot.expire.limit": "0"}), DEFAULT, NOW).expired == ()


# -- changelogs


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"changelog.num-retained.min": "10"}, False),
        ({"changelog.num-retained.min": "11"}, True),
        ({"changelog.num-retained.max": "20", "snapshot.num-retained.max": "20"}, False),
        ({"changelog.num-retained.max": "21", "snapshot.num-retained.max": "20"}, True),
        ({"changelog.time-retained": "60 min"}, False),
        ({"changelog.time-retained": "61 min"}, True),
        ({"changelog.time-retained": "30 min"}, False),
    ],
)
def test_when_changelogs_outlive_snapshots(options: Mapping[str, str], expected: bool) -> None:
    assert decoupled(options) is expected


def test_changelogs_have_limits_of_their_own_and_the_newest_stays() -> None:
    options = {**OLD, "changelog.num-retained.max": "15", "changelog.num-retained.min": "2"}
    options["snapshot.num-retained.max"] = "5"
    table = branch(range(16, 21), options, changelogs=range(1, 16), ages=ages([10] * 15))
    found = expirable_changelogs(table, DEFAULT, NOW)
    assert found.expired == tuple(range(1, 15))
    assert found.kept == {15: "the newest changelog"}
    options["changelog.time-retained"] = "1 d"
    assert expirable_changelogs(table, DEFAULT, NOW).expired == tuple(range(1, 6))


def test_changelogs_are_left_alone_where_they_do_not_outlive_snapshots() -> None:
    found = expirable_changelogs(branch(range(16, 21), OLD, changelogs=range(1, 16)), DEFAULT, NOW)
    assert not found.expired
    assert set(found.kept) == set(range(1, 16))
    assert (
        expirable_changelogs(branch(range(16, 21), {**OLD, "changelog.num-retained.min": "9"}), DEFAULT, NOW).kept == {}
    )


# -- lengths of time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 h", HOUR),
        ("1h", HOUR),
        ("2 Hours", 2 * HOUR),
        (" 30 min ", HOUR / 2),
        ("30m", HOUR / 2),
        ("7 d", timedelta(days=7)),
        ("10 s", timedelta(seconds=10)),
        ("15", timedelta(milliseconds=15)),
        ("3 µs", timedelta(microseconds=3)),
        ("1500 ns", timedelta(microseconds=1)),
        ("9223372036854775807", timedelta.max),
        ("1.5 h", None),
        ("-1 h", None),
        ("h", None),
        ("", None),
        ("1 week", None),
        ("1 h 30 min", None),
    ],
)
def test_lengths_of_time_are_read_as_paimon_reads_them(text: str, expected: timedelta | None) -> None:
    assert parse_duration(text) == expected


@settings(deadline=None)
@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_lengths_of_time_are_written_as_they_are_read(length: timedelta) -> None:
    assert parse_duration(in_words(length)) == length


# -- rules that hold for every history


@st.composite
def histories(draw: st.DrawFn, gaps: bool = True) -> Branch:
    count = draw(st.integers(1, 40))
    first = draw(st.integers(1, 20))
    steps = draw(st.lists(st.floats(0, 3), min_size=count, max_size=count))
    ids = list(range(first, first + count))
    if gaps:
        missing = draw(st.sets(st.sampled_from(ids), max_size=3))
        ids = [i for i in ids if i not in missing] or ids
    made = {i: sum(steps[i - first :]) * HOUR for i in ids}
    minimum = draw(st.integers(1, 20))
    options = {
        "snapshot.num-retained.min": str(minimum),
        "snapshot.num-retained.max": str(minimum + draw(st.integers(0, 30))),
        "snapshot.time-retained": f"{draw(st.integers(0, 600))} min",
        "snapshot.expire.limit": str(draw(st.integers(0, 30))),
    }
    consumers = draw(st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 60), max_size=2))
    return branch(ids, options, made, consumers)


RULES = st.sampled_from(list(AgeRule))


def javas_end(table: Branch, rule: AgeRule, now: datetime) -> int:
    """ExpireSnapshotsImpl.expire, line by line, for a history without gaps."""
    options, times = table.schema.options, {s.id: s.time_ms for s in table.snapshots}
    latest, earliest = max(times), min(times)
    length = parse_duration(options["snapshot.time-retained"])
    assert length is not None
    older_than = int(now.timestamp() * 1000) - int(length.total_seconds() * 1000)
    lowest = max(latest - int(options["snapshot.num-retained.max"]) + 1, earliest)
    end = latest - int(options["snapshot.num-retained.min"]) + 1
    end = min(end, min(table.consumers.values(), default=2**63))
    end = min(end, earliest + int(options["snapshot.expire.limit"]))
    for i in range(lowest, end):
        if older_than <= times[i + 1 if rule is AgeRule.SUCCESSOR else i]:
            return i
    return end


@settings(deadline=None)
@given(histories(gaps=False), RULES)
def test_without_gaps_it_is_what_java_does(table: Branch, rule: AgeRule) -> None:
    found = expirable(table, expiry_policy(age_rule=rule), NOW)
    end = javas_end(table, rule, NOW)
    assert found.expired == tuple(s.id for s in table.snapshots if s.id < end)


@settings(deadline=None)
@given(histories(), RULES)
def test_what_always_holds(table: Branch, rule: AgeRule) -> None:
    ids = [s.id for s in table.snapshots]
    found = expirable(table, expiry_policy(age_rule=rule), NOW)
    assert found.refusal is None
    assert ids[-1] not in found.expired
    assert sorted([*found.expired, *found.kept]) == ids
    assert all(found.kept.values())
    minimum = int(table.schema.options["snapshot.num-retained.min"])
    assert all(i <= ids[-1] - minimum for i in found.expired)
    assert len(found.expired) <= int(table.schema.options["snapshot.expire.limit"])
    assert all(i < reads_from for i in found.expired for reads_from in table.consumers.values())
    if found.expired:
        assert found.end in ids
        assert found.expired == tuple(range(found.expired[0], found.end))
        assert [i for i in ids if i < found.end][-len(found.expired) :] == list(found.expired)


@settings(deadline=None)
@given(histories(gaps=False), st.timedeltas(timedelta(0), timedelta(days=2)))
def test_time_only_ever_lets_more_go(table: Branch, later: timedelta) -> None:
    for rule in AgeRule:
        policy = expiry_policy(age_rule=rule, max_expire=1000)
        before, after = expirable(table, policy, NOW), expirable(table, policy, NOW + later)
        assert (before.end or 0) <= (after.end or 0)


@settings(deadline=None)
@given(histories(gaps=False))
def test_the_stricter_rule_keeps_at_least_as_much(table: Branch) -> None:
    successor = expirable(table, expiry_policy(age_rule=AgeRule.SUCCESSOR), NOW)
    own = expirable(table, expiry_policy(age_rule=AgeRule.OWN), NOW)
    assert set(successor.expired) <= set(own.expired)


@settings(deadline=None)
@given(histories(gaps=False), RULES)
def test_doing_it_again_at_once_goes_on_where_it_stopped(table: Branch, rule: AgeRule) -> None:
    """A crash between two removals leaves a shorter history; what was to go still goes and no more."""
    policy = expiry_policy(age_rule=rule, max_expire=1000)
    found = expirable(table, policy, NOW)
    half = found.expired[: len(found.expired) // 2]
    rest = replace(table, snapshots=tuple(s for s in table.snapshots if s.id not in half))
    assert expirable(rest, policy, NOW).expired == found.expired[len(half) :]
