"""Whether what a longer retention expires is always part of what a shorter one does: of Iceberg it is, of Paimon not.

A forecast asks for each retention by itself, so it counts right in either case; only a curve that falls is no law.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.formats.iceberg.expiry.retention import retention
from lakewarden.formats.paimon.expiry.retention import expirable
from lakewarden.model.forecast import RETENTIONS
from tests.formats.paimon.test_retention import branch
from tests.support.policies import expiry_policy

NOW = datetime(2026, 11, 18, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
DAY_MS = 86_400_000


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A history of some snapshots, with branches and tags that keep what they like."""
    count = draw(st.integers(1, 12))
    ages = sorted(draw(st.lists(st.integers(0, 120), min_size=count, max_size=count)), reverse=True)
    snapshots = [
        {"snapshot-id": i + 1, "timestamp-ms": NOW_MS - age * DAY_MS, "manifest-list": f"file:///t/{i}.avro",
         **({"parent-snapshot-id": draw(st.integers(1, i))} if i and draw(st.booleans()) else {})}
        for i, age in enumerate(ages)
    ]  # fmt: skip
    refs: dict[str, Any] = {"main": {"snapshot-id": count, "type": "branch"}}
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True)):
        ref: dict[str, Any] = {
            "snapshot-id": draw(st.integers(1, count)),
            "type": draw(st.sampled_from(["branch", "tag"])),
        }
        if ref["type"] == "branch":
            ref |= draw(st.sampled_from([{}, {"min-snapshots-to-keep": 3}, {"max-snapshot-age-ms": 20 * DAY_MS}]))
        refs[name] = ref | draw(st.sampled_from([{}, {"max-ref-age-ms": 10 * DAY_MS}]))
    return {"snapshots": snapshots, "refs": refs, "current-snapshot-id": count, "properties": {}}


@given(documents(), st.integers(1, 4))
def test_what_iceberg_keeps_longer_is_part_of_what_it_keeps_for_less(document: dict[str, Any], least: int) -> None:
    policy = replace(expiry_policy(), retain_min=least)
    expired = [
        set(retention(document, replace(policy, retain=timedelta(days=days)), NOW).expired) for days in RETENTIONS
    ]
    assert all(longer <= shorter for shorter, longer in pairwise(expired))


def test_paimon_leaves_alone_what_lies_before_a_gap_and_so_may_expire_less_with_less_retention() -> None:
    day = timedelta(days=1)
    ages = {1: 60 * day, 2: 50 * day, 3: 40 * day, 7: 20 * day, 8: 10 * day, 9: 9 * day, 10: timedelta()}
    history = branch([*ages], ages=ages)

    def goes(days: int) -> set[int]:
        policy = replace(expiry_policy(), retain=days * day, retain_min=1)
        return set(expirable(history, policy, datetime(2026, 1, 1, tzinfo=UTC)).expired)

    assert goes(45) == {1}
    assert goes(5) == {7, 8}
    assert not goes(45) <= goes(5)
