"""A table's identifier is text that no other table has, and the parts come back out of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.model.table import catalog_of, identifier_of, name_within, parts_of
from lakewarden.steps.observe.fleet import selected, selection

PART = st.text(st.sampled_from("ab.`"), max_size=5) | st.text(max_size=5)


@pytest.mark.parametrize(
    ("parts", "identifier"),
    [
        (("sales", "orders"), "lake.sales.orders"),
        (("a", "b", "c"), "lake.a.b.c"),
        (("a", "b.c"), "lake.a.`b.c`"),
        (("a.b", "c"), "lake.`a.b`.c"),
        (("a", "tick`"), "lake.a.`tick```"),
        (("", "alone"), "lake..alone"),
        (("with space", "-*?"), "lake.with space.-*?"),
    ],
)
def test_only_a_part_with_a_dot_or_a_backtick_is_quoted(parts: tuple[str, ...], identifier: str) -> None:
    assert identifier_of("lake", parts) == identifier
    assert parts_of(identifier) == ("lake", *parts)
    assert catalog_of(identifier) == "lake"
    assert parts_of(name_within(identifier)) == parts


@given(st.lists(PART, min_size=2, max_size=4))
def test_the_parts_come_back(parts: list[str]) -> None:
    identifier = identifier_of(parts[0], parts[1:])
    assert parts_of(identifier) == tuple(parts)
    assert catalog_of(identifier) == parts[0]
    assert identifier == ".".join((identifier_of(parts[0], ()), name_within(identifier)))


@given(st.lists(PART, min_size=2, max_size=4), st.lists(PART, min_size=2, max_size=4))
def test_two_tables_are_two_texts(one: list[str], other: list[str]) -> None:
    assert (identifier_of(one[0], one[1:]) == identifier_of(other[0], other[1:])) == (one == other)


@pytest.mark.parametrize("text", ["", ".", "`", "a`b.c", "lake.`a", "lake.`a`b.c", "``", "lake.a."])
def test_whatever_a_user_types_has_parts(text: str) -> None:
    assert all(isinstance(part, str) for part in parts_of(text))


def test_a_selection_names_one_of_two_tables() -> None:
    one, other = identifier_of("lake", ("a", "b.c")), identifier_of("lake", ("a", "b", "c"))
    assert [selected(name, [one], ()) for name in (one, other)] == [True, False]
    assert [selected(name, [other], ()) for name in (one, other)] == [False, True]
    assert [selected(name, ["lake.a.*"], [other]) for name in (one, other)] == [True, False]


def test_a_selection_of_thousands_of_names_costs_no_square_of_them() -> None:
    names = [f"lake.db.t{number:05d}" for number in range(20_000)]
    chosen = selection([*names[:10_000], "lake.other.*"], names[5_000:6_000])
    began = time.process_time()
    assert sum(map(chosen, names)) == 9_000
    assert time.process_time() - began < 2
