"""Holders of several cases, taken apart and put together so that each thing is read once, need what they needed before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.model.holding import in_all_cases
from lakewarden.model.table import Hold, Holder, ManifestList, NamedManifest, ReachedFile
from lakewarden.model.verdict import Kind
from lakewarden.pipeline.compare.holders import needed

LISTS = [ManifestList(f"list-{i}") for i in range(6)]
MANIFESTS = [NamedManifest(f"manifest-{i}", Kind.INDEX) for i in range(3)]
FILES = [ReachedFile(f"file-{i}", Kind.METADATA) for i in range(4)]
# What each list's manifests say: (file, added or deleted).
ENTRIES: Mapping[str, list[tuple[str, bool]]] = {
    "list-0": [("a", True), ("b", True)],
    "list-1": [("b", False), ("c", True)],
    "list-2": [("a", True), ("d", True)],
    "list-3": [("d", False)],
    "list-4": [("e", True), ("e", True), ("c", False)],
    "list-5": [],
}


def needs(holder: Holder) -> set[str]:
    """Everything that a holder needs, by the rule that the comparison has."""
    entries = [entry for item in holder.manifest_lists for entry in ENTRIES[item.uri]]
    adds = Counter(file for file, added in entries if added)
    deletes = Counter(file for file, added in entries if not added)
    found = {file for file in {*adds, *deletes} if needed(str(holder.hold), adds[file], deletes[file])}
    named = (*holder.manifest_lists, *holder.manifests, *holder.files)
    return found | {item.uri for item in named}


def by_brute_force(cases: Mapping[int, Iterable[Holder]]) -> dict[str, int]:
    """By file, the bits of the cases in which any holder needs it: each case looked at by itself."""
    found: dict[str, int] = {}
    for bit, holders in cases.items():
        for holder in holders:
            for file in needs(holder):
                found[file] = found.get(file, 0) | bit
    return found


def together(cases: Mapping[int, Iterable[Holder]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for bits, holder in in_all_cases(cases):
        for file in needs(holder):
            found[file] = found.get(file, 0) | bits
    return found


def subsets(values: list) -> st.SearchStrategy:  # type: ignore[type-arg]
    return st.lists(st.sampled_from(values), unique=True).map(tuple)


HOLDERS = st.builds(Holder, st.sampled_from(list(Hold)), subsets(LISTS), subsets(MANIFESTS), subsets(FILES))
CASES = st.dictionaries(st.sampled_from([1, 2, 4, 8, 16, 32]), st.lists(HOLDERS, max_size=4), min_size=1)


@given(CASES)
def test_every_file_is_needed_in_the_cases_in_which_it_was(cases: dict[int, list[Holder]]) -> None:
    assert together(cases) == by_brute_force(cases)


@given(CASES)
def test_no_list_is_read_twice_but_for_snapshots_that_show_what_lists_have_in_common(
    cases: dict[int, list[Holder]],
) -> None:
    read = Counter(
        (holder.hold, item.uri) for _, holder in in_all_cases(cases) if holder.hold is not Hold.NET
        for item in holder.manifest_lists
    )  # fmt: skip
    assert all(count == 1 for count in read.values())


def test_a_shorter_history_is_three_holders() -> None:
    long, short = Holder(Hold.ALL, tuple(LISTS)), Holder(Hold.ALL, tuple(LISTS[3:]))
    found = in_all_cases({1: [long], 2: [long], 4: [short]})
    assert found == [(3, Holder(Hold.ALL, tuple(LISTS[:3]))), (7, Holder(Hold.ALL, tuple(LISTS[3:])))]


def test_a_snapshot_that_shows_a_merge_is_never_taken_apart() -> None:
    shown = Holder(Hold.NET, (LISTS[0], LISTS[1]))
    assert in_all_cases({1: [shown], 2: [shown]}) == [(3, shown)]
    assert "b" not in needs(shown)
