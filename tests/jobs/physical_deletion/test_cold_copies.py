"""Where a policy asks for a cold copy, released files wait until they have one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.jobs.physical_deletion import plan as deletion
from lakewarden.jobs.physical_deletion.cold_copies import ColdCopies
from lakewarden.ledger.archives import Archive
from lakewarden.ledger.cold import ColdFile, ColdSnapshot
from lakewarden.model.errors import Refusal, StoreUnavailableError
from lakewarden.model.plan import Plan, TablePlan, Tally
from lakewarden.model.policy import Job
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Verdict
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.observe.fleet import load_fleet
from tests.support.lakes import local_path
from tests.support.ledger import PendingFile, release
from tests.support.policies import deletion_policy
from tests.support.worlds import World

ORDERS, CLICKS = "sales.orders", "web.clicks"
KINDS = ("data", "delete", "statistics", "metadata", "manifest", "manifest_list")
METADATA = KINDS[3:]


class Collected:
    """What physical deletion would look at, by table and name; `asking` tables want a copy first."""

    def __init__(self, world: World, *asking: str, delay: timedelta = timedelta(days=1)) -> None:
        deployment, self.lake = world.warden._deployment, world.lake.name
        now = deployment.clock.now()
        fleet = load_fleet(deployment, now)
        names = frozenset(state.identifier for state in fleet.states)
        policies = {
            name: replace(deletion_policy(), visibility_delay=delay, require_cold_copy=name.split(".", 1)[1] in asking)
            for name in names
        }
        ground = deletion.Ground.of(fleet, policies, names, now)
        self.due = deletion._collect(deployment, fleet, ground, now, f"{deployment.state}plans/cold/")
        tables, _ = deletion._tables(deployment, fleet, policies, names, Findings(), self.due)
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
    deployment = world.warden._deployment
    then = deployment.clock.now() - timedelta(days=2)
    files = [
        PendingFile("expiry", f"{world.lake.name}.{table}", uri_of(world, table, kind), 10, then, then, "tag", kind)
        for table in (ORDERS, CLICKS)
        for kind in KINDS
    ]
    stray = PendingFile("expiry", f"{world.lake.name}.{CLICKS}", "file:///elsewhere/orphan", 10, then)
    release(deployment.ledger, [*files, stray])
    return world


def uri_of(world: World, table: str, kind: str) -> str:
    return f"{world.table(table).location()}/{table}-{kind}"


def cold_of(world: World, table: str) -> str:
    return f"{world.warden._deployment.state}cold/{table}/"


def copy(world: World, table: str, *kinds: str, by: str = "", place: str = "") -> None:
    """Copies of a table's files, by that table or another one, in its cold directory or elsewhere."""
    deployment = world.warden._deployment
    uuid, now = str(world.table(by or table).metadata.table_uuid), deployment.clock.now()
    for kind in kinds:
        target = canonical(f"{place or cold_of(world, by or table)}copy-{kind}")
        deployment.stores.put(target, b"0123456789")
        deployment.ledger.cold.add([ColdFile(uri_of(world, table, kind), target, uuid, "handoff", 10, "aa", now)])


def archive(world: World, table: str, run: str, *snapshots: int) -> None:
    deployment = world.warden._deployment
    uuid = str(world.table(table).metadata.table_uuid)
    deployment.ledger.archives.add(Archive(run, table, uuid, "file:///a", "aa", snapshots, deployment.clock.now()))


def hand_over(world: World, table: str, *snapshots: int) -> str:
    deployment = world.warden._deployment
    uuid, now, cold = str(world.table(table).metadata.table_uuid), deployment.clock.now(), cold_of(world, table)
    metadata = f"{cold}metadata/v1.metadata.json"
    deployment.stores.put(metadata, b"{}")
    deployment.ledger.cold.add_snapshots(
        ColdSnapshot(uuid, number, table, cold, metadata, "handoff", now) for number in snapshots
    )
    return metadata


class Asked:
    """Which of a table's released files may go, with a look at the cold place, and why the others wait."""

    def __init__(self, world: World, table: str, *asking: str) -> None:
        deployment, lake = world.warden._deployment, world.lake.name
        states = load_fleet(deployment, deployment.clock.now()).states
        cold = ColdCopies.of(
            deployment.ledger, states, {f"{lake}.{name}" for name in asking or (table,)}, stores=deployment.stores
        )
        uris = [uri_of(world, table, kind) for kind in KINDS]
        files = pa.table({"uri": uris, "table": [f"{lake}.{table}"] * len(uris), "kind": list(KINDS)})
        self.go = {kind for kind, goes in zip(KINDS, cold.may_go(files).to_pylist(), strict=True) if goes}
        self.blocked = cold.blocked.get(f"{lake}.{table}")


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
    assert found.waiting(CLICKS) == (Tally(6, 60), Tally())


def test_a_table_that_asks_waits_for_each_copy(released: World) -> None:
    archive(released, ORDERS, "one", 1, 2)
    hand_over(released, ORDERS, 1, 2)
    copy(released, ORDERS, "data", "statistics", "manifest")
    assert Asked(released, ORDERS).go == {"data", "statistics", *METADATA}
    found = Collected(released, ORDERS)
    assert found.names == names(CLICKS, *KINDS) | names(ORDERS, "data", "statistics", *METADATA)
    assert found.waiting(ORDERS) == (Tally(), Tally(1, 10))


def test_every_file_waits_for_every_expired_snapshot(released: World) -> None:
    """A file with a copy may still be needed to hand another snapshot over, to another place."""
    archive(released, ORDERS, "one", 1, 2)
    archive(released, ORDERS, "two", 3)
    hand_over(released, ORDERS, 1, 2)
    copy(released, ORDERS, *KINDS)
    assert Asked(released, ORDERS).go == set()
    hand_over(released, ORDERS, 3)
    assert Asked(released, ORDERS).go == set(KINDS)


def test_a_snapshot_that_did_not_go_after_all_is_not_waited_for(released: World) -> None:
    there = released.table(ORDERS).metadata.snapshots[0].snapshot_id
    archive(released, ORDERS, "one", 1, there)
    hand_over(released, ORDERS, 1)
    assert Asked(released, ORDERS).go == set(METADATA)


def test_only_the_table_s_own_copy_counts(released: World) -> None:
    """Another table's copy serves that table; one in a place where no snapshot was handed over serves none."""
    for table in (ORDERS, CLICKS):
        archive(released, table, "one", 1)
        hand_over(released, table, 1)
    copy(released, ORDERS, "data", by=CLICKS)
    copy(released, ORDERS, "statistics", by=CLICKS, place=cold_of(released, ORDERS))
    copy(released, ORDERS, "delete", place=f"{released.warden._deployment.state}other/")
    assert Asked(released, ORDERS).go == set(METADATA)
    copy(released, ORDERS, "data", "delete")
    assert Asked(released, ORDERS).go == {"data", "delete", *METADATA}


def test_tables_of_one_directory_wait_for_each_other(released: World) -> None:
    deployment = released.warden._deployment
    states = {
        state.identifier.split(".", 1)[1]: state for state in load_fleet(deployment, deployment.clock.now()).states
    }
    archive(released, ORDERS, "one", 1)
    hand_over(released, ORDERS, 1)
    copy(released, ORDERS, *KINDS)
    orders, clicks = states[ORDERS], replace(states[CLICKS], roots=states[ORDERS].roots)
    asking = {orders.identifier, clicks.identifier}
    files = pa.table({"uri": [uri_of(released, ORDERS, "data")], "table": [orders.identifier], "kind": ["data"]})
    waits = ColdCopies.of(deployment.ledger, [orders, clicks], asking)
    assert waits.may_go(files).to_pylist() == [False]
    assert clicks.identifier in waits.blocked[orders.identifier]
    archive(released, CLICKS, "one", 1)
    hand_over(released, CLICKS, 1)
    as_clicks = files.set_column(1, "table", pa.array([clicks.identifier]))
    for rows in (files, as_clicks):
        assert ColdCopies.of(deployment.ledger, [orders, clicks], asking).may_go(rows).to_pylist() == [True]


@pytest.mark.parametrize("left", [None, b"short"])
def test_a_copy_counts_as_long_as_it_is_there(released: World, left: bytes | None) -> None:
    archive(released, ORDERS, "one", 1)
    metadata = hand_over(released, ORDERS, 1)
    copy(released, ORDERS, *KINDS)
    for kind in ("data", "manifest"):
        path = local_path(f"{cold_of(released, ORDERS)}copy-{kind}")
        path.unlink() if left is None else path.write_bytes(left)
    found = Asked(released, ORDERS)
    assert found.go == set(KINDS) - {"data", "manifest"}
    assert found.blocked is not None
    assert cold_of(released, ORDERS) in found.blocked
    local_path(metadata).unlink()
    found = Asked(released, ORDERS)
    assert (found.go, found.blocked) == (set(), f"the cold table's metadata {metadata} is gone")


def test_a_cold_place_that_cannot_be_looked_at_keeps_the_files(
    released: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(released, ORDERS, "one", 1)
    hand_over(released, ORDERS, 1)
    copy(released, ORDERS, *KINDS)
    deployment = released.warden._deployment
    disk = type(deployment.stores.at("file:///"))
    states = [s for s in load_fleet(deployment, deployment.clock.now()).states if s.identifier.endswith(ORDERS)]

    def down(*_: object) -> None:
        raise StoreUnavailableError("no route")

    for call in ("head_many", "head"):
        with monkeypatch.context() as patch:
            patch.setattr(disk, call, down)
            cold = ColdCopies.of(deployment.ledger, states, {states[0].identifier}, stores=deployment.stores)
            rows = {"uri": [uri_of(released, ORDERS, "data")], "table": [states[0].identifier], "kind": ["data"]}
            assert cold.may_go(pa.table(rows)).to_pylist() == [False]
            assert cold.blocked == {states[0].identifier: "its cold place cannot be looked at: no route"}


def test_a_snapshot_that_can_never_be_handed_over_is_named(released: World) -> None:
    """The newest handover plan knows why: it looked at every file."""
    deployment = released.warden._deployment
    archive(released, ORDERS, "one", 1, 2)
    assert Asked(released, ORDERS).blocked is None, "no plan has looked at them yet"
    now, table = deployment.clock.now(), released.table(ORDERS)
    keep = [{"snapshot_id": 2, "reason": "a file of it is gone: s3://x"}]
    line = TablePlan(
        f"{released.lake.name}.{ORDERS}", str(table.metadata.table_uuid), "iceberg", "", (), detail={"keep": keep}
    )
    plan = Plan(Job.TIER_HANDOFF, now, now + timedelta(days=1), now, released.warden.actor(), (line,), (), (), {})
    deployment.ledger.plans.save(plan.sealed(), "file:///plan/")
    why = "the expired snapshot 2 cannot be handed over: a file of it is gone: s3://x"
    assert Asked(released, ORDERS).blocked == why
    refused = replace(line, refusal=Refusal("LW-TABLE-001", "none is whole", ""), detail={})
    deployment.ledger.plans.save(
        replace(plan, created_at=now + timedelta(hours=1), tables=(refused,)).sealed(), "file:///plan/"
    )
    assert Asked(released, ORDERS).blocked == "its snapshots cannot be handed over: none is whole"


def test_a_table_without_known_snapshots_keeps_everything(released: World) -> None:
    found = Collected(released, ORDERS)
    assert found.waiting(ORDERS) == (Tally(), Tally(6, 60))
    detail = found.tables[ORDERS].detail
    assert (set(detail), detail["waiting_for_cold_copy"]) == ({"waiting_for_cold_copy", "cold_copy_blocked"}, 6)
    assert found.tables[ORDERS].verdicts[Verdict.TOO_NEW] == Tally(6, 60)
    assert found.tables[CLICKS].detail == {}
