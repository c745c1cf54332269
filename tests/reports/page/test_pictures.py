"""The shapes of the page's pictures."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.reports.page.pictures import curve, scale, stacked
from lakewarden.reports.page.text import percent, sentence, shown


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=3))
def test_a_bar_has_a_part_for_everything_that_is_there_and_fills_its_width(counts: list[int]) -> None:
    parts = stacked([(f"k{i}", count, "") for i, count in enumerate(counts)])
    assert [part.kind for part in parts] == [f"k{i}" for i, count in enumerate(counts) if count]
    assert all(part.width >= 5.9 for part in parts)
    if parts:
        assert abs(parts[-1].x + parts[-1].width - 1000) < 1
        assert all(one.x + one.width < other.x for one, other in pairwise(parts))


def test_a_curve_falls_as_its_values_do() -> None:
    found = curve([("1 day", 300.0), ("3 days", 200.0), ("7 days", 0.0)], [(0.0, "0"), (300.0, "300")])
    heights = [y for _, y in found.points]
    assert heights == sorted(heights)
    assert heights[-1] == found.up[0].at
    assert heights[0] == found.up[1].at
    assert [tick.label for tick in found.across] == ["1 day", "3 days", "7 days"]


@given(st.floats(0, 1e18))
def test_a_scale_is_short_and_reaches_about_as_far_as_the_values(highest: float) -> None:
    ticks = scale(highest)
    assert 1 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert ticks == sorted(ticks)


def test_shares_and_sentences() -> None:
    assert [percent(share) for share in (None, 0.0, 0.001, 0.5)] == ["unknown", "0%", "under 1%", "50%"]
    assert sentence("orphan cleanup has not looked at it yet") == "Orphan cleanup has not looked at it yet."
    assert shown("a\x1bb") == "a\\x1bb"
