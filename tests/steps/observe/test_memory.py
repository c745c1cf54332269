"""What plans remember of tables, and what is read of a table that no catalog lists: without Spark, by loading fleets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from lakewarden.model.known_table import KnownTable
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, load_fleet
from lakewarden.steps.observe.memory import Reached, remember
from tests.support.lakes import append, local_path
from tests.support.worlds import World, plant_rows

ORDERS, CLICKS = "sales.orders", "web.clicks"


def seen(world: World) -> Fleet:
    """A fleet as a plan loads it, with what a plan would remember of it: every table read with all its manifests."""
    deployment = world.warden._deployment
    fleet = load_fleet(deployment, datetime.now(UTC))
    reached = {s.identifier: Reached(whole=s.metadata_location) for s in fleet.states if s.is_visible}
    remember(deployment, fleet, {} if fleet.unlisted else reached)
    return fleet


def known(deployment: Deployment, name: str) -> KnownTable:
    (row,) = (row for row in deployment.ledger.known_tables.memory().rows if row.identifier == f"lake.{name}")
    return row


@contextmanager
def unlisted(world: World, name: str) -> Iterator[None]:
    """The catalog leaves a table out for a while."""
    database = world.lake.properties["uri"].removeprefix("sqlite:///")
    table = name.rpartition(".")[2]
    with sqlite3.connect(database) as connection:
        row = connection.execute("SELECT * FROM iceberg_tables WHERE table_name = ?", (table,)).fetchone()
        connection.execute("DELETE FROM iceberg_tables WHERE table_name = ?", (table,))
    try:
        yield
    finally:
        with sqlite3.connect(database) as connection:
            connection.execute(f"INSERT INTO iceberg_tables VALUES ({', '.join('?' * len(row))})", row)


def test_a_table_that_is_not_listed_is_read_at_its_newest_metadata_and_refused(world: World) -> None:
    """Since the last plan it has taken in a file of another table's directory: that one is needed."""
    seen(world)
    late = plant_rows(world.table(CLICKS), "zzz/late-{}.parquet")
    world.table(ORDERS).add_files([f"file://{late}"])
    newest = world.table(ORDERS).metadata_location
    with unlisted(world, ORDERS):
        fleet = load_fleet(world.warden._deployment, datetime.now(UTC))
    (state,) = (state for state in fleet.states if state.identifier in fleet.unlisted)
    assert (state.identifier, state.metadata_location, state.is_visible) == (f"lake.{ORDERS}", newest, True)
    assert state.refusal is not None
    assert state.refusal.code == "LW-DOUBT-001"
    assert {root.prefix for root in fleet.roots if root.refusal} == {f"{world.table(ORDERS).location()}/"}


def test_a_table_whose_name_another_has_is_told_apart_by_its_uuid(world: World) -> None:
    seen(world)
    uuid = str(world.table(ORDERS).metadata.table_uuid)
    schema = world.table(ORDERS).schema()
    world.catalog().drop_table(ORDERS)
    world.catalog().create_table(ORDERS, schema, location=f"file://{world.base}/warehouse/elsewhere")
    fleet = seen(world)
    assert fleet.unlisted == {f"lake.{ORDERS}@{uuid}"}
    assert [doubt.key for doubt in fleet.doubts] == [(f"lake.{ORDERS}", uuid)]


def test_nothing_is_read_of_a_table_of_which_nothing_is_left(world: World) -> None:
    seen(world)
    world.catalog().purge_table(ORDERS)
    fleet = seen(world)
    assert fleet.unlisted == frozenset()
    assert [doubt.table for doubt in fleet.doubts] == [f"lake.{ORDERS}"]


def test_any_sight_of_a_table_ends_its_absence(world: World) -> None:
    """Missed once, then listed and unreadable: when it is missed again, the time begins anew."""
    deployment = world.warden._deployment
    seen(world)
    with unlisted(world, ORDERS):
        seen(world)
    assert known(deployment, ORDERS).absent_since is not None
    append(world.table(ORDERS), 900)
    metadata = local_path(world.table(ORDERS).metadata_location)
    whole = metadata.read_bytes()
    metadata.write_bytes(b"")
    assert [doubt.code for doubt in seen(world).doubts] == ["LW-ROOT-001"]
    assert known(deployment, ORDERS).absent_since is None
    metadata.write_bytes(whole)
    assert seen(world).doubts == []


def test_a_renamed_table_keeps_its_places_under_its_new_name(world: World) -> None:
    deployment = world.warden._deployment
    seen(world)
    row = known(deployment, ORDERS)
    deployment.ledger.known_tables.record([row._replace(outside_roots=("s3://b/borrowed/",))])
    world.catalog().rename_table(ORDERS, "sales.renamed")
    assert seen(world).doubts == []
    assert known(deployment, "sales.renamed").places == (*row.roots, "s3://b/borrowed/")
    assert {row.identifier for row in deployment.ledger.known_tables.memory().rows} == {
        "lake.sales.renamed",
        f"lake.{CLICKS}",
    }
