"""Where the cold place may not be: in a root, or around one, found without trying every root for every table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.jobs.tier_handoff.aged_out import _around_or_below
from lakewarden.model.roots import Claim, group_roots

PARTS = st.lists(st.sampled_from(["a", "ab", "b", "-", "a b"]), min_size=1, max_size=4)
PREFIXES = PARTS.map(lambda parts: f"s3://lake/{'/'.join(parts)}/")


@given(st.lists(PREFIXES, max_size=12), PREFIXES)
def test_the_same_roots_as_by_trying_all(prefixes: list[str], place: str) -> None:
    roots = group_roots([Claim(prefix, "t") for prefix in prefixes])
    wanted = [root for root in roots if place.startswith(root.prefix) or root.prefix.startswith(place)]
    assert list(_around_or_below(place, roots)) == wanted
