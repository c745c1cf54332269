"""Roots: disjoint, covering every claim, and never merging siblings."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.model.roots import Claim, claims_of, group_roots
from lakewarden.model.table import TableState

SEGMENTS = st.sampled_from(["t", "t_v2", "t-1", "t2", "a", "t.x", "t!"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map(lambda parts: "s3://b/" + "/".join(parts))


def table(name: str, *roots: str) -> TableState:
    return TableState(name, "iceberg", name, f"{roots[0]}/metadata/x", roots[0], roots)


@settings(deadline=None)
@given(st.lists(st.lists(PATHS, min_size=1, max_size=3), max_size=8))
def test_roots_are_disjoint_and_cover_every_claim(places: list[list[str]]) -> None:
    states = [table(f"t{i}", *paths) for i, paths in enumerate(places)]
    claims = claims_of(states)
    roots = group_roots(claims)
    prefixes = [root.prefix for root in roots]
    assert not any(a != b and a.startswith(b) for a in prefixes for b in prefixes)
    assert len(set(prefixes)) == len(prefixes)
    for claim in claims:
        above = [root for root in roots if claim.prefix.startswith(root.prefix)]
        assert len(above) == 1
        assert claim.identifier in above[0].tables
    for root in roots:
        assert root.prefix in {claim.prefix for claim in claims}
        assert set(root.tables) == {c.identifier for c in claims if c.prefix.startswith(root.prefix)}


@settings(deadline=None)
@given(st.lists(PATHS, min_size=1, max_size=8))
def test_deeper_claims_come_first(paths: list[str]) -> None:
    claims = claims_of([table(f"t{i}", path) for i, path in enumerate(paths)])
    for i, claim in enumerate(claims):
        assert not any(later.prefix != claim.prefix and later.prefix.startswith(claim.prefix) for later in claims[i:])


def test_siblings_that_share_a_beginning_stay_apart() -> None:
    roots = group_roots(claims_of([table("a", "s3://b/t"), table("b", "s3://b/t_v2"), table("c", "s3://b/t2/")]))
    assert [(root.prefix, root.tables) for root in roots] == [
        ("s3://b/t/", ("a",)),
        ("s3://b/t2/", ("c",)),
        ("s3://b/t_v2/", ("b",)),
    ]


def test_the_same_directory_in_two_spellings_is_one_root() -> None:
    roots = group_roots(claims_of([table("a", "s3a://b/t"), table("b", "s3://b/t/"), table("c", "s3n://b/t/in")]))
    assert [(root.prefix, set(root.tables)) for root in roots] == [("s3://b/t/", {"a", "b", "c"})]


def test_a_claim_is_of_its_table() -> None:
    assert claims_of([table("a", "/x/t", "file:///y")]) == [Claim("file:///x/t/", "a"), Claim("file:///y/", "a")]
