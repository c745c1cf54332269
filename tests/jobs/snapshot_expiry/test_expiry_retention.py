"""Which snapshots and refs may go, over documents made by hand: the specification's rules, the policy's, the floors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.commit.versions import Version
from lakewarden.formats.iceberg.expiry.expirer import survey
from lakewarden.formats.iceberg.expiry.retention import Retention, retention
from lakewarden.formats.iceberg.metadata.document import table_state
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.policy import ExpiryPolicy
from tests.support.policies import expiry_policy

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
NOW_MS = 1_772_366_400_123
HOUR = 3_600_000
DAY = 24 * HOUR


def snapshot(number: int, age_hours: float, parent: int | None = None, **summary: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": NOW_MS - int(age_hours * HOUR),
        "manifest-list": f"file:///lake/t/metadata/snap-{number}.avro",
        "summary": {"operation": "append", **{key.replace("_", "-"): value for key, value in summary.items()}},
    }
    return found if parent is None else found | {"parent-snapshot-id": parent}


def line(*ages: float, first: int = 1, parent: int | None = None) -> list[dict[str, Any]]:
    """Snapshots of these ages, oldest first, each the next one's parent."""
    found = []
    for number, age in enumerate(ages, first):
        found.append(snapshot(number, age, parent))
        parent = number
    return found


def document(
    snapshots: list[dict[str, Any]], refs: Mapping[str, Any] | None = None, **properties: str
) -> dict[str, Any]:
    """A table of these snapshots; the last one is current unless the refs say otherwise."""
    named = dict(refs or {})
    if snapshots and "main" not in named:
        named["main"] = branch(snapshots[-1]["snapshot-id"])
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///lake/t",
        "last-updated-ms": NOW_MS,
        "last-sequence-number": len(snapshots),
        "current-snapshot-id": named["main"]["snapshot-id"] if named else None,
        "refs": named,
        "snapshots": snapshots,
        "properties": {f"history.expire.{key.replace('_', '-')}": value for key, value in properties.items()},
    }


def branch(number: int, **limits: int) -> dict[str, Any]:
    return {"snapshot-id": number, "type": "branch", **{k.replace("_", "-"): v for k, v in limits.items()}}


def tag(number: int, **limits: int) -> dict[str, Any]:
    return branch(number, **limits) | {"type": "tag"}


def hours(number: float, **more: Any) -> ExpiryPolicy:
    return expiry_policy(retain=timedelta(hours=number), **more)


def kept(found: Retention) -> set[int]:
    return set(found.kept)


def test_main_always_stays_and_keeps_its_head() -> None:
    found = retention(document(line(99, 98, 97)), hours(0, max_ref_age=timedelta()), NOW)
    assert kept(found) == {3}
    assert found.refs_expired == {}


def test_a_table_without_snapshots() -> None:
    assert retention(document([]), hours(0), NOW) == Retention()


def test_version_one_may_have_a_current_snapshot_and_no_refs() -> None:
    old = document(line(9, 8)) | {"refs": None}
    assert kept(retention(old, hours(0), NOW)) == {2}


def test_defaults_are_five_days_and_one_snapshot() -> None:
    found = retention(document(line(6 * 24, 5 * 24 + 1, 5 * 24, 1)), expiry_policy(), NOW)
    assert kept(found) == {3, 4}


def test_the_tables_own_properties() -> None:
    own = document(line(9, 8, 7, 6), max_snapshot_age_ms=str(7 * HOUR), min_snapshots_to_keep="3")
    assert kept(retention(own, expiry_policy(), NOW)) == {2, 3, 4}


def test_the_policy_stands_in_for_the_tables_properties() -> None:
    own = document(line(9, 8, 7, 6), max_snapshot_age_ms=str(99 * HOUR), min_snapshots_to_keep="4")
    assert kept(retention(own, hours(0, retain_min=1), NOW)) == {4}


def test_a_property_that_is_no_number_refuses_the_table() -> None:
    with pytest.raises(UnsupportedTableError, match="min-snapshots-to-keep"):
        retention(document(line(1), min_snapshots_to_keep="some"), expiry_policy(), NOW)


def test_no_more_than_the_policy_wants_although_young() -> None:
    assert kept(retention(document(line(4, 3, 2, 1)), hours(99, retain_max=2), NOW)) == {3, 4}
    assert kept(retention(document(line(4, 3, 2, 1)), hours(99, retain_max=2, retain_min=3), NOW)) == {2, 3, 4}


def test_a_branch_keeps_a_run_and_stops_at_the_first_that_nothing_keeps() -> None:
    """A young snapshot behind an old one, as a clock that was wrong leaves it: the line ends before."""
    assert kept(retention(document(line(9, 1, 8, 2)), hours(5), NOW)) == {4}


def test_refs_have_limits_of_their_own() -> None:
    snapshots = [*line(9, 8, 7, 6), *line(5, first=5, parent=4), *line(4, first=6, parent=3)]
    refs = {
        "main": branch(4),
        "numbered": branch(5, min_snapshots_to_keep=3),
        "aged": branch(6, max_snapshot_age_ms=8 * HOUR),
    }
    found = retention(document(snapshots, refs), hours(1), NOW)
    assert kept(found) == {4, 5, 3, 6, 2}
    assert found.expired == {1: ("main", "older than 1 hour")}


def test_a_reason_names_the_branch_that_the_snapshot_is_seen_from() -> None:
    snapshots = [*line(9, 8), *line(7, 6, first=3, parent=1)]
    found = retention(document(snapshots, {"main": branch(2), "work": branch(4)}), hours(1), NOW)
    assert found.expired == {1: ("main", "older than 1 hour"), 3: ("work", "older than 1 hour")}


def test_tags_keep_their_snapshot_and_no_other() -> None:
    found = retention(document(line(9, 8, 7), {"main": branch(3), "v1": tag(2)}), hours(0), NOW)
    assert kept(found) == {2, 3}
    assert found.kept[2] == ("v1", "tag v1")


def test_stale_refs_go_with_what_only_they_lead_to() -> None:
    snapshots = [*line(9, 1), *line(8, 7, first=3, parent=1)]
    refs = {
        "main": branch(2),
        "old": branch(4),
        "own": tag(3, max_ref_age_ms=99 * HOUR),
        "young": tag(2),
        "release-1": tag(1),
    }
    found = retention(document(snapshots, refs), hours(0, max_ref_age=timedelta(hours=5), keep=("release-*",)), NOW)
    assert set(found.refs_expired) == {"old"}
    assert kept(found) == {1, 2, 3}
    assert found.expired == {4: ("", "no branch or tag leads to it")}


def test_staged_snapshots_stay_while_they_are_young() -> None:
    snapshots = [snapshot(1, 9), snapshot(2, 8, 1), snapshot(3, 2, 1), snapshot(4, 1, 1)]
    found = retention(document(snapshots), hours(5), NOW)
    assert kept(found) == {3, 4}
    assert found.expired == {1: ("main", "older than 5 hours"), 2: ("", "no branch or tag leads to it")}


def test_a_ref_whose_snapshot_is_missing_is_left_to_its_owner() -> None:
    """And no snapshot of its table expires: the one that it names may have been lost from the metadata."""
    refs = {"main": branch(2), "lost": tag(77), "gone": branch(78)}
    broken = document(line(9, 8), refs)
    found = retention(broken, hours(0, max_ref_age=timedelta()), NOW)
    assert set(found.refs_kept) == {"main", "lost", "gone"}
    assert kept(found) == {2}
    where = "file:///lake/t/metadata/00001-a.metadata.json"
    state = table_state("lake.db.t", where, broken)
    refusal = survey(state, Version(where, b"", broken), hours(0), NOW).refusal
    assert refusal is not None
    assert refusal.code == "LW-TABLE-012"


def test_the_instant_is_taken_to_the_millisecond() -> None:
    """The plan keeps it as a number; what may go must not change by that."""
    for micro in range(0, 1_000_000, 977):
        at = NOW.replace(microsecond=micro)
        ms = NOW_MS - 123 + micro // 1000
        again = datetime.fromtimestamp(ms / 1000, UTC)
        table = document([snapshot(1, 0) | {"timestamp-ms": ms - 1}, snapshot(2, 0, 1)])
        assert retention(table, hours(0), at).expired.keys() == retention(table, hours(0), again).expired.keys() == {1}


def test_the_last_checkpoint_of_a_flink_job_and_all_since() -> None:
    """A job that starts again walks back from the head to it, so the line must be whole."""
    checkpoint = {"flink.max-committed-checkpoint-id": "7", "flink.job-id": "j"}
    snapshots = line(9, 8, 7, 6, 5)
    for place in (0, 1):
        snapshots[place]["summary"] |= checkpoint
    found = retention(document(snapshots), hours(0), NOW)
    assert kept(found) == {2, 3, 4, 5}
    assert found.kept[2][1] == "the last checkpoint of Flink job j"
    assert found.kept[3][1] == "on the way to the last checkpoint of Flink job j"
    assert kept(retention(document(snapshots), hours(0, flink_checkpoint=timedelta(hours=7)), NOW)) == {5}


def test_each_flink_job_has_a_floor() -> None:
    snapshots = line(9, 8, 7, 6, 5)
    for place, job in ((0, "a"), (1, "b"), (3, "b")):
        snapshots[place]["summary"] |= {"flink.max-committed-checkpoint-id": "7", "flink.job-id": job}
    assert kept(retention(document(snapshots), hours(0), NOW)) == {1, 2, 3, 4, 5}
    del snapshots[0]["summary"]["flink.max-committed-checkpoint-id"]
    assert kept(retention(document(snapshots), hours(0), NOW)) == {4, 5}


def test_work_in_progress_keeps_the_snapshot_that_it_started_on() -> None:
    since = NOW - timedelta(hours=6.5)
    found = retention(document(line(9, 8, 7, 6, 5)), hours(0, in_use_since=since), NOW)
    assert kept(found) == {3, 4, 5}
    everything = retention(document(line(9, 8)), hours(0, in_use_since=NOW - timedelta(hours=99)), NOW)
    assert kept(everything) == {1, 2}


def test_a_snapshot_that_files_are_rewritten_from_stays_with_all_that_came_after() -> None:
    found = retention(document(line(9, 8, 7, 6, 5)), hours(0, in_use_snapshots={3, 555}), NOW)
    assert kept(found) == {3, 4, 5}
    assert found.kept[3][1] == "the snapshot that work in progress started on"
    named = retention(document(line(9, 8, 7)), hours(0, expire_ids=(2,), in_use_snapshots={1}), NOW)
    assert kept(named) == {1, 2, 3}


def test_a_snapshot_that_files_are_rewritten_from_stays_after_a_rollback() -> None:
    rolled_back = document(line(9, 8, 7), {"main": branch(2)})
    assert kept(retention(rolled_back, hours(0, in_use_snapshots={3}), NOW)) == {2, 3}
    assert kept(retention(rolled_back, hours(0, in_use_snapshots={3}, expire_ids=(3,)), NOW)) == {2, 3}
    assert kept(retention(rolled_back, hours(0), NOW)) == {2}


def test_ids_that_the_policy_names() -> None:
    found = retention(document(line(3, 2, 1)), hours(99, expire_ids=(1, 555)), NOW)
    assert found.expired == {1: ("main", "named by the policy")}
    with pytest.raises(UnsupportedTableError, match="v1 points"):
        retention(document(line(3, 2, 1), {"v1": tag(1), "main": branch(3)}), hours(99, expire_ids=(1,)), NOW)
    with pytest.raises(UnsupportedTableError, match="main points"):
        retention(document(line(3, 2, 1)), hours(99, expire_ids=(3,)), NOW)


def test_named_ids_do_not_break_a_floor() -> None:
    found = retention(document(line(9, 8, 7)), hours(0, expire_ids=(2,), in_use_since=NOW - timedelta(hours=7.5)), NOW)
    assert kept(found) == {2, 3}


def test_no_more_than_so_many_in_one_run_oldest_first() -> None:
    found = retention(document(line(9, 8, 7, 6)), hours(0, max_expire=2), NOW)
    assert set(found.expired) == {1, 2}
    assert found.kept[3][1] == "no more than 2 go in one run"


def test_a_ref_waits_until_all_can_go() -> None:
    """Its snapshots might have to stay for the next run, and it keeps them in sight."""
    snapshots = [*line(9, 1), *line(8, 7, first=3, parent=1)]
    old = document(snapshots, {"main": branch(2), "old": branch(4)})
    policy = hours(0, max_ref_age=timedelta(hours=5))
    few = retention(old, expiry_policy(**{**_fields(policy), "max_expire": 1}), NOW)
    assert few.refs_expired == {}
    assert set(few.expired) == {1}
    assert set(retention(old, expiry_policy(**{**_fields(policy), "max_expire": 3}), NOW).refs_expired) == {"old"}


def _fields(policy: ExpiryPolicy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in policy.__dataclass_fields__}


def test_of_the_refs_only_planned_ones_and_only_where_they_were() -> None:
    """One made since the plan on an old snapshot is as old as that by the rules, and must keep it."""
    policy = hours(0, max_ref_age=timedelta(hours=5))
    refs = {"main": branch(3), "planned": tag(1), "moved": tag(2), "new": tag(2)}
    found = retention(document(line(9, 8, 7), refs), policy, NOW, removable={"planned": 1, "moved": 1})
    assert set(found.refs_expired) == {"planned"}
    assert kept(found) == {2, 3}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 12))
    snapshots = []
    for number in range(1, count + 1):
        parent = draw(st.one_of(st.none(), st.integers(1, number - 1))) if number > 1 else None
        snapshots.append(snapshot(number, draw(st.integers(0, 20)), parent))
    refs = {"main": branch(draw(st.integers(1, count)))}
    for name in draw(st.sets(st.sampled_from("abcde"))):
        limits = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "max_ref_age_ms": st.integers(1, 20 * HOUR),
                    "max_snapshot_age_ms": st.integers(1, 20 * HOUR),
                    "min_snapshots_to_keep": st.integers(1, 5),
                },
            )
        )
        made = draw(st.sampled_from([branch, tag]))
        refs[name] = made(draw(st.integers(1, count)), **limits)
    return document(snapshots, refs)


policies = st.builds(
    hours,
    st.integers(0, 20),
    retain_min=st.one_of(st.none(), st.integers(1, 5)),
    retain_max=st.one_of(st.none(), st.integers(5, 8)),
    max_expire=st.one_of(st.none(), st.integers(1, 5)),
    max_ref_age=st.one_of(st.none(), st.integers(0, 20).map(lambda n: timedelta(hours=n))),
)


@given(tables(), policies)
@settings(max_examples=300, deadline=None)
def test_whatever_the_table(table: dict[str, Any], policy: ExpiryPolicy) -> None:
    found = retention(table, policy, NOW)
    ids = {s["snapshot-id"] for s in table["snapshots"]}
    assert found.kept.keys() | found.expired.keys() == ids
    assert not found.kept.keys() & found.expired.keys()
    assert found.refs_kept.keys() | found.refs_expired.keys() == table["refs"].keys()
    assert "main" in found.refs_kept
    assert {table["refs"][name]["snapshot-id"] for name in found.refs_kept} <= found.kept.keys()
    assert policy.max_expire is None or len(found.expired) <= policy.max_expire


@given(tables(), policies)
@settings(max_examples=300, deadline=None)
def test_by_the_words_of_the_specification(table: dict[str, Any], policy: ExpiryPolicy) -> None:
    """A second reading of its procedure, without the policy's own limits."""
    plain = expiry_policy(**{**_fields(policy), "retain_max": None, "max_expire": None})
    found = retention(table, plain, NOW)
    assert (kept(found), set(found.refs_kept)) == by_the_spec(table, plain)


def by_the_spec(table: dict[str, Any], policy: ExpiryPolicy) -> tuple[set[int], set[str]]:
    """1. Start with everything. 2. Refs by max-ref-age-ms. 3. Each branch's ancestors. 4. The rest by age."""
    snapshots = {s["snapshot-id"]: s for s in table["snapshots"]}
    age = {number: NOW_MS - s["timestamp-ms"] for number, s in snapshots.items()}
    assert policy.retain is not None
    limit = policy.retain // timedelta(milliseconds=1)
    oldest_ref = 2**63 if policy.max_ref_age is None else policy.max_ref_age // timedelta(milliseconds=1)
    refs = {
        name: ref
        for name, ref in table["refs"].items()
        if name == "main" or age[ref["snapshot-id"]] <= ref.get("max-ref-age-ms", oldest_ref)
    }
    left, reached = set(), set()
    for ref in refs.values():
        left.add(ref["snapshot-id"])
        number, place, going = ref["snapshot-id"], 0, ref["type"] == "branch"
        reached.add(number)
        while number is not None and ref["type"] == "branch":
            reached.add(number)
            young = age[number] <= ref.get("max-snapshot-age-ms", limit)
            going = going and (place < ref.get("min-snapshots-to-keep", policy.retain_min or 1) or young)
            left |= {number} if going else set()
            number, place = snapshots[number].get("parent-snapshot-id"), place + 1
    left |= {number for number in snapshots if number not in reached and age[number] <= limit}
    return left, set(refs)
