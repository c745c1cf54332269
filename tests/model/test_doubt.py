"""When a table that was seen before is in doubt, and which directories that leaves alone."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.model.doubt import ABSENT, LESS, UNREAD, Doubt, Look, doubted_roots, doubts_of
from lakewarden.model.errors import Refusal
from lakewarden.model.known_table import KnownTable, Memory
from lakewarden.model.margins import MARGINS
from lakewarden.model.table import LoggedMetadata, ManifestList, ReachedFile, TableState
from lakewarden.model.verdict import Kind

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ORDERS = KnownTable(
    "lake.db.orders", "u-1", 10, 100, ("s3://b/other/",), NOON - DAY,
    roots=("s3://b/orders/",), seen_location="s3://b/orders/v5.json", seen_ms=5000, first_seen=NOON - 200 * DAY,
)  # fmt: skip
USERS = ORDERS._replace(
    identifier="lake.db.users", uuid="u-2", outside_roots=(), roots=("s3://b/users/",), seen_location="v1", seen_ms=1
)


def state(row: KnownTable, **changes: object) -> TableState:
    made = TableState(
        row.identifier, "iceberg", row.uuid, row.seen_location, row.roots[0], row.roots,
        files=(ReachedFile(row.seen_location, Kind.METADATA),),
        manifest_lists=(ManifestList("s3://b/list"),),
        updated_ms=row.seen_ms,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def look(*states: TableState, at: datetime = NOON, abandoned: dict[str, datetime] | None = None) -> Look:
    listed = {found.identifier: found.metadata_location for found in states}
    return Look(listed, {found.identifier: found for found in states}, at, abandoned or {})


def codes(seen: Look, *rows: KnownTable) -> dict[str, str]:
    return {doubt.table: doubt.code for doubt in doubts_of(Memory(rows or (ORDERS, USERS)), seen)}


def test_a_healthy_fleet_is_in_no_doubt() -> None:
    assert codes(look(state(ORDERS), state(USERS))) == {}


def test_a_table_that_was_not_read_is_where_it_was() -> None:
    seen = Look({ORDERS.identifier: ORDERS.seen_location, USERS.identifier: "v1"}, {}, NOON)
    assert codes(seen) == {}


@pytest.mark.parametrize("name", ["lake.db.orders", "lake.db.renamed", "other.db.registered"])
def test_a_table_is_there_under_any_name(name: str) -> None:
    assert codes(look(state(ORDERS, identifier=name), state(USERS))) == {}


def test_a_table_under_another_name_that_cannot_be_read_is_found_by_its_metadata() -> None:
    refusal = Refusal("LW-TABLE-001", "it is cut", "Repair it.")
    lost = state(ORDERS, identifier="lake.db.renamed", uuid="", files=(), manifest_lists=(), refusal=refusal)
    assert codes(look(lost, state(USERS))) == {"lake.db.orders": UNREAD}
    assert Memory([ORDERS]).of(lost) == ORDERS


def test_a_table_that_no_catalog_lists_is_in_doubt_until_its_drop_is_believed() -> None:
    assert codes(look(state(USERS))) == {"lake.db.orders": ABSENT}
    missed = ORDERS._replace(absent_since=NOON)
    almost = NOON + MARGINS.drop_grace - timedelta(seconds=1)
    assert codes(look(state(USERS), at=almost), missed, USERS) == {"lake.db.orders": ABSENT}
    assert codes(look(state(USERS), at=NOON + MARGINS.drop_grace), missed, USERS) == {}


def test_a_drop_is_never_believed_of_a_catalog_that_lists_nothing_it_listed_before() -> None:
    gone = [row._replace(absent_since=NOON - 100 * DAY) for row in (ORDERS, USERS)]
    assert codes(look(), *gone) == {"lake.db.orders": ABSENT, "lake.db.users": ABSENT}
    stranger = KnownTable("more.db.new", "u-3", 0, 0, (), NOON, roots=("s3://b/new/",), seen_location="v1")
    assert codes(look(state(stranger)), *gone) == {"lake.db.orders": ABSENT, "lake.db.users": ABSENT}


def test_a_catalog_with_other_tables_of_the_same_names_is_not_healthy() -> None:
    """A catalog that was lost and partly made again says nothing of what it listed before."""
    missed = ORDERS._replace(absent_since=NOON - 100 * DAY)
    assert codes(look(state(USERS, uuid="u-new")), missed, USERS)["lake.db.orders"] == ABSENT
    made_again = USERS._replace(uuid="u-new", first_seen=NOON - 99 * DAY)
    assert codes(look(state(made_again)), missed, made_again)["lake.db.orders"] == ABSENT
    assert codes(look(state(USERS)), missed, USERS) == {}


def test_a_table_that_was_known_under_two_names_is_not_the_other_renamed() -> None:
    copied = ORDERS._replace(identifier="lake.db.copy", outside_roots=(), roots=("s3://b/copy/",))
    assert codes(look(state(copied), state(USERS)), ORDERS, copied, USERS) == {"lake.db.orders": ABSENT}
    assert codes(look(state(copied), state(USERS)), ORDERS, USERS) == {}


def test_an_operator_may_give_a_table_up() -> None:
    assert codes(look(state(USERS), abandoned={"u-1": NOON})) == {}
    seen_again = {"u-1": ORDERS.at - timedelta(seconds=1)}
    assert codes(look(state(USERS), abandoned=seen_again)) == {"lake.db.orders": ABSENT}


def test_another_table_of_the_same_name_is_not_the_one_that_was_seen() -> None:
    assert codes(look(state(ORDERS, uuid="u-9"), state(USERS))) == {"lake.db.orders": ABSENT}


def test_a_table_that_cannot_be_read_is_in_doubt_and_one_that_is_left_alone_is_not() -> None:
    refusal = Refusal("LW-TABLE-001", "it is cut", "Repair it.")
    unread = state(ORDERS, uuid="", files=(), manifest_lists=(), refusal=refusal)
    (doubt,) = doubts_of(Memory([ORDERS, USERS]), look(unread, state(USERS)))
    assert (doubt.code, doubt.hint) == (UNREAD, "Repair it.")
    assert doubt.places == ("s3://b/orders/", "s3://b/other/")
    assert "it is cut" in doubt.refusal("s3://b/other/").message
    assert codes(look(state(ORDERS, refusal=refusal), state(USERS))) == {}


def test_a_table_that_is_empty_is_in_doubt() -> None:
    assert codes(look(state(ORDERS, manifest_lists=()), state(USERS))) == {"lake.db.orders": LESS}
    assert codes(look(state(ORDERS, manifest_lists=()), state(USERS)), ORDERS._replace(live_files=0), USERS) == {}


def test_metadata_older_than_was_seen_is_in_doubt() -> None:
    older = state(ORDERS, metadata_location="s3://b/orders/v4.json", updated_ms=4000)
    assert codes(look(older, state(USERS))) == {"lake.db.orders": LESS}
    newer = state(ORDERS, metadata_location="s3://b/orders/v9.json", updated_ms=9000)
    assert codes(look(newer, state(USERS))) == {}
    slow_clock = replace(older, history=(LoggedMetadata(ORDERS.seen_location, 0, 1),))
    assert codes(look(slow_clock, state(USERS))) == {}, "it continues what was seen, whatever its writer's clock says"
    without_ages = ORDERS._replace(seen_ms=0)
    assert codes(look(older, state(USERS)), without_ages, USERS) == {}


def test_doubt_leaves_alone_what_lies_within_and_around_a_place_and_nothing_beside() -> None:
    doubt = Doubt("lake.db.orders", ("s3a://b/x/y", "s3://b/z/"), ABSENT, "is not listed", "Look.")
    roots = ["s3://b/x/", "s3://b/xx/", "s3://b/z/deep/er/", "s3://b/zz/", "s3://c/z/"]
    found = doubted_roots([doubt], roots)
    assert set(found) == {"s3://b/x/", "s3://b/z/deep/er/"}
    assert (
        found["s3://b/x/"].message
        == "lake.db.orders had files under s3://b/x/y/ and is not listed; nothing under it is touched"
    )
    assert doubted_roots([], roots) == {}


@pytest.mark.parametrize("name", ["lake.db.`a.b`", "lake.db.$(touch x)", "lake.db.two words"])
def test_the_command_in_a_hint_names_the_table_to_a_shell(name: str) -> None:
    """Between backticks a shell would run the name."""
    [doubt] = doubts_of(Memory((ORDERS._replace(identifier=name), USERS)), look(state(USERS)))
    assert shlex.split(doubt.hint.partition(": ")[2]) == ["lakewarden", "forget", name]
