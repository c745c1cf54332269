"""Where a policy asks for a cold copy, released files wait until they have one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from lakewarden.jobs import deletion
from lakewarden.jobs.evidence import Evidence
from lakewarden.jobs.fleet import load_fleet
from lakewarden.ledger.archives import Archive
from lakewarden.ledger.cold import ColdFile, ColdSnapshot
from lakewarden.ledger.pending import PendingFile
from lakewarden.model.plan import Tally
from lakewarden.model.policy import DeletionPolicy
from lakewarden.model.verdict import Verdict
from tests.apply.worlds import World
from tests.lakes import local_path

ORDERS, CLICKS = "sales.orders", "web.clicks"
KINDS = ("data", "delete", "statistics", "metadata", "manifest", "manifest_list")
METADATA = KINDS[3:]


class Collected:
    """What physical deletion would look at, by table and name; `asking` tables want a copy first."""

    def __init__(self, world: World, *asking: str, delay: timedelta = timedelta(days=1)) -> None:
        rooms, self.lake = world.warden._rooms, world.lake.name
        now = rooms.clock.now()
        fleet = load_fleet(rooms, now)
        names = frozenset(state.identifier for state in fleet.states)
        policies = {
            name: replace(DeletionPolicy(), visibility_delay=delay, require_cold_copy=name.split(".", 1)[1] in asking)
            for name in names
        }
        self.due = deletion._collect(rooms, fleet, policies, names, now, f"{rooms.state}plans/cold/")
        tables, _ = deletion._tables(rooms, fleet, policies, names, Evidence(), self.due)
        self.tables = {table.identifier.split(".", 1)[1]: table for table in tables}
        keys = [key for part in self.due.parts for key in pq.read_table(local_path(part))["key"].to_pylist()]
        self.names = {key.rsplit("/", 1)[-1] for key in keys}

    def waiting(self, table: str) -> tuple[Tally, Tally]:
        """For the delay, and for the copy."""
        name = f"{self.lake}.{table}"
        return self.due.waiting.get(name, Tally()), self.due.uncopied.get(name, Tally())


@pytest.fixture
def released(world: World) -> World:
    """Six files of each table, released two days ago; and one in no root at all."""
    rooms = world.warden._rooms
    then = rooms.clock.now() - timedelta(days=2)
    files = [
        PendingFile("expiry", f"{world.lake.name}.{table}", uri_of(world, table, kind), 10, then, then, "tag", kind)
        for table in (ORDERS, CLICKS)
        for kind in KINDS
    ]
    stray = PendingFile("expiry", f"{world.lake.name}.{CLICKS}", "file:///elsewhere/orphan", 10, then)
    rooms.ledger.pending.add([*files, stray])
    return world


def uri_of(world: World, table: str, kind: str) -> str:
    return f"{world.table(table).location()}/{table}-{kind}"


def copy(world: World, table: str, *kinds: str) -> None:
    rooms = world.warden._rooms
    uuid, now = str(world.table(table).metadata.table_uuid), rooms.clock.now()
    rooms.ledger.cold.add(
        ColdFile(uri_of(world, table, kind), f"s3://cold/{kind}", uuid, "handoff", 10, "aa", now) for kind in kinds
    )


def archive(world: World, table: str, run: str, *snapshots: int) -> None:
    rooms = world.warden._rooms
    uuid = str(world.table(table).metadata.table_uuid)
    rooms.ledger.archives.add(Archive(run, table, uuid, "file:///a", "aa", snapshots, rooms.clock.now()))


def hand_over(world: World, table: str, *snapshots: int) -> None:
    rooms = world.warden._rooms
    uuid, now = str(world.table(table).metadata.table_uuid), rooms.clock.now()
    rooms.ledger.cold.add_snapshots(
        ColdSnapshot(uuid, number, table, "s3://cold/", "s3://cold/m.json", "handoff", now) for number in snapshots
    )


def names(table: str, *kinds: str) -> set[str]:
    return {f"{table}-{kind}" for kind in kinds}


def test_nobody_asks_so_everything_in_a_root_goes(released: World) -> None:
    found = Collected(released)
    assert found.names == names(ORDERS, *KINDS) | names(CLICKS, *KINDS)
    assert found.waiting(ORDERS) == (Tally(), Tally())


def test_the_delay_comes_first(released: World) -> None:
    found = Collected(released, ORDERS, delay=timedelta(days=3))
    assert found.due.parts == ()
    assert found.due.tables == frozenset()
    assert found.waiting(ORDERS) == (Tally(6, 60), Tally())
    assert found.waiting(CLICKS) == (Tally(7, 70), Tally())


def test_a_table_that_asks_waits_for_each_copy(released: World) -> None:
    archive(released, ORDERS, "one", 1, 2)
    copy(released, ORDERS, "data", "statistics", "manifest")
    found = Collected(released, ORDERS)
    assert found.names == names(CLICKS, *KINDS) | names(ORDERS, "data", "statistics")
    assert found.waiting(ORDERS) == (Tally(), Tally(4, 40))


def test_metadata_waits_for_every_expired_snapshot(released: World) -> None:
    archive(released, ORDERS, "one", 1, 2)
    archive(released, ORDERS, "two", 3)
    hand_over(released, ORDERS, 1, 2)
    assert not Collected(released, ORDERS).names & names(ORDERS, *KINDS)
    hand_over(released, ORDERS, 3)
    assert Collected(released, ORDERS).names & names(ORDERS, *KINDS) == names(ORDERS, *METADATA)


def test_a_snapshot_that_did_not_go_after_all_is_not_waited_for(released: World) -> None:
    there = released.table(ORDERS).metadata.snapshots[0].snapshot_id
    archive(released, ORDERS, "one", 1, there)
    hand_over(released, ORDERS, 1)
    assert Collected(released, ORDERS).names & names(ORDERS, *KINDS) == names(ORDERS, *METADATA)


def test_a_table_without_known_snapshots_keeps_everything(released: World) -> None:
    found = Collected(released, ORDERS)
    assert found.waiting(ORDERS) == (Tally(), Tally(6, 60))
    assert found.tables[ORDERS].detail == {"waiting_for_cold_copy": 6}
    assert found.tables[ORDERS].verdicts[Verdict.TOO_NEW] == Tally(6, 60)
    assert found.tables[CLICKS].detail == {}
