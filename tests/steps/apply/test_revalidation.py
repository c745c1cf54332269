"""Tables move between plan and apply, and between two batches: what they have come to need is never lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from lakewarden.model.errors import InvariantViolationError, StateError
from lakewarden.model.run import RunResult
from lakewarden.steps.apply import revalidate
from lakewarden.steps.observe.fleet import load_fleet
from lakewarden.steps.observe.memory import Reached, remember
from tests.support.lakes import MONTH_SECONDS, age_everything, append, local_path, write_table
from tests.support.worlds import MakeWorld, World, at_batch, hand_plan, plant_rows

# When the table moves: before apply starts, or when the first batch (of one file) is done.
MOMENTS = ("before apply", "between batches")
ORDERS, CLICKS = "sales.orders", "web.clicks"


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    return world_of(batch_size=1)


def apply_while(world: World, moment: str, move: Callable[[], object], orphans: list[Path] | None = None) -> RunResult:
    """Apply a plan while a table moves. Whatever moves, no needed file may be gone afterwards."""
    plan = hand_plan(world, orphans)
    if moment == "before apply":
        move()
        result = world.apply(plan)
    else:
        result = world.apply(plan, progress=at_batch(1, move))
    assert not world.lost()
    world.rows()
    assert world.warden.audit_verify()["ok"]
    return result


def add_late(world: World, table: str) -> list[Path]:
    """Orphans of sales.orders with a file of good rows among them, last in the order of deletion."""
    late = plant_rows(world.table(table), "zzz/late-{}.parquet")
    return [*world.planted(), late]


def adding(table: Table, path: Path) -> Callable[[], object]:
    return lambda: table.catalog.load_table(table.name()).add_files([f"file://{path}"])


def tagging(table: Table) -> None:
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "kept").commit()


def branching(table: Table) -> None:
    table.manage_snapshots().create_branch(table.metadata.snapshots[0].snapshot_id, "side").commit()
    append(table.refresh(), 500)


def rolling_back(table: Table) -> None:
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()


def overwriting(table: Table) -> None:
    table.overwrite(pa.table({"id": pa.array([7], pa.int64()), "part": ["a"]}))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "move", [lambda table: append(table, 100), overwriting, tagging, branching, rolling_back],
    ids=["append", "overwrite", "tag", "branch", "rollback"],
)  # fmt: skip
def test_commits_that_need_no_orphan_stop_nothing(world: World, moment: str, move: Callable[[Table], None]) -> None:
    result = apply_while(world, moment, lambda: move(world.table(ORDERS)))
    assert (result.status, result.deleted.files) == ("done", 12)
    assert not any(path.exists() for path in world.planted())


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("by", [ORDERS, CLICKS], ids=["its own table", "another table"])
def test_an_orphan_that_a_commit_adds_stays(world: World, moment: str, by: str) -> None:
    orphans = add_late(world, ORDERS)
    result = apply_while(world, moment, adding(world.table(by), orphans[-1]), orphans)
    assert orphans[-1].exists()
    assert (result.status, result.deleted.files, result.kept["revalidated"]) == ("done", 12, 1)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_orphan_that_other_metadata_under_the_same_name_adds_stays(world: World, moment: str) -> None:
    """A catalog that counts its metadata files (`v3.metadata.json`) may use a name again: only the bytes tell."""
    orphans = add_late(world, ORDERS)
    table = world.table(ORDERS)
    counted = local_path(table.metadata_location).with_name("v3.metadata.json")
    shutil.copy(local_path(table.metadata_location), counted)
    world.catalog().drop_table(ORDERS)
    world.catalog().register_table(ORDERS, f"file://{counted}")

    def move() -> None:
        world.table(ORDERS).add_files([f"file://{orphans[-1]}"])
        shutil.copy(local_path(world.table(ORDERS).metadata_location), counted)
        world.catalog().drop_table(ORDERS)
        world.catalog().register_table(ORDERS, f"file://{counted}")

    result = apply_while(world, moment, move, orphans)
    assert orphans[-1].exists()
    assert (result.status, result.deleted.files, result.kept["revalidated"]) == ("done", 12, 1)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_orphan_that_a_later_snapshot_dropped_again_stays(world: World, moment: str) -> None:
    """Added, then overwritten: only an older snapshot reaches it, and a rollback would need it."""
    orphans = add_late(world, ORDERS)

    def move() -> None:
        world.table(ORDERS).add_files([f"file://{orphans[-1]}"])
        overwriting(world.table(ORDERS))

    apply_while(world, moment, move, orphans)
    assert orphans[-1].exists()


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_orphan_on_a_branch_stays(world: World, moment: str) -> None:
    orphans = add_late(world, ORDERS)

    def move() -> None:
        table = world.table(ORDERS)
        table.manage_snapshots().create_branch(table.metadata.snapshots[0].snapshot_id, "side").commit()
        world.table(ORDERS).add_files([f"file://{orphans[-1]}"], branch="side")

    apply_while(world, moment, move, orphans)
    assert orphans[-1].exists()


def expired_world(world: World) -> tuple[str, list[Path]]:
    """A table that dropped its first snapshot a month ago: the metadata that still has it, and what only that reaches."""
    table = write_table(world.catalog(), "sales.expired", appends=1)
    with_first = table.metadata_location
    only_first = {local_path(p) for p in _files(table)}
    first = table.metadata.snapshots[0].snapshot_id
    overwriting(table)
    table.maintenance.expire_snapshots().by_id(first).commit()
    still = {local_path(p) for p in _files(world.table("sales.expired"))}
    _shift_clocks(local_path(table.location()))
    age_everything(world.base / "lake" / "warehouse")
    return with_first, sorted(only_first - still)


def _files(table: Table) -> list[str]:
    found = []
    for snapshot in table.snapshots():
        found.append(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.append(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            found += [entry.data_file.file_path for entry in entries]
    return found


def _shift_clocks(location: Path) -> None:
    """Every instant in every metadata file a month earlier, so that no grace protects the past."""
    for path in location.glob("metadata/*.metadata.json"):
        document = json.loads(path.read_text())
        document["last-updated-ms"] -= MONTH_SECONDS * 1000
        for name in ("snapshots", "snapshot-log", "metadata-log"):
            for entry in document.get(name, []):
                entry["timestamp-ms"] -= MONTH_SECONDS * 1000
        path.write_text(json.dumps(document))


def registering_again(world: World, old: str) -> Callable[[], object]:
    def move() -> None:
        catalog = world.catalog()
        catalog.drop_table("sales.expired")
        catalog.register_table("sales.expired", old)

    return move


def test_an_old_metadata_file_that_is_registered_again(world: World) -> None:
    """Snapshot ids and times say nothing here: the snapshot is old, and it is needed again."""
    old, orphans = expired_world(world)
    assert len(orphans) >= 3
    result = apply_while(world, "before apply", registering_again(world, old), orphans)
    assert all(path.exists() for path in orphans)
    assert result.deleted.files == 0


def test_a_file_that_was_deleted_before_it_was_needed_again_is_reported_loudly(world: World) -> None:
    old, orphans = expired_world(world)
    plan = hand_plan(world, orphans)
    with pytest.raises(InvariantViolationError, match="1 deleted files"):
        world.apply(plan, progress=at_batch(1, registering_again(world, old)))
    assert sum(path.exists() for path in orphans) == len(orphans) - 1
    run = world.warden.run_detail(world.warden.runs()[0]["run_id"])
    steps = [step["name"] for step in run["steps"]]
    assert (run["status"], steps[-2:]) == ("partial", ["invariant-violation", "failed"])
    assert world.warden.audit_verify()["ok"]


def test_a_file_that_a_crashed_run_deleted_is_not_taken_for_kept(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome was not written: only a look at the file says that it is gone, now that a table needs it again."""
    world = world_of(batch_size=100)
    old, orphans = expired_world(world)
    plan = hand_plan(world, orphans)
    with monkeypatch.context() as crash:
        crash.setattr(world.warden._deployment.ledger.journal, "outcomes", _no_database)
        with pytest.raises(StateError):
            world.apply(plan)
    registering_again(world, old)()
    with pytest.raises(InvariantViolationError, match="deleted files are needed"):
        world.apply(plan)


def _no_database(*_: object) -> None:
    raise StateError("the state database is gone")


def test_under_quarantine_it_is_put_back(world_of: MakeWorld) -> None:
    world = world_of(batch_size=1, delete_mode="quarantine")
    old, orphans = expired_world(world)
    result = apply_while(world, "between batches", registering_again(world, old), orphans)
    assert all(path.exists() for path in orphans)
    assert "restored" in [step["name"] for step in world.warden.run_detail(result.run_id)["steps"]]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_table_dropped_and_made_again_stops_its_root(world: World, moment: str) -> None:
    location = world.table(ORDERS).location()

    def move() -> None:
        catalog = world.catalog()
        catalog.drop_table(ORDERS)
        write_table(catalog, ORDERS, location=location)

    result = apply_while(world, moment, move)
    gone = 0 if moment == "before apply" else 1
    assert sum(path.exists() for path in world.planted(ORDERS)) == 6 - gone
    assert not any(path.exists() for path in world.planted(CLICKS))
    assert (result.status, result.exit_code) == ("partial", 3)
    assert "made again" in result.failed[0].message


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("inside", ["", "/data/nested"], ids=["same root", "nested root"])
def test_a_new_table_that_begins_to_use_the_root(world: World, moment: str, inside: str) -> None:
    def move() -> None:
        write_table(world.catalog(), "sales.newcomer", location=world.table(ORDERS).location() + inside)

    result = apply_while(world, moment, move)
    assert sum(path.exists() for path in world.planted(ORDERS)) == (6 if moment == "before apply" else 5)
    assert not any(path.exists() for path in world.planted(CLICKS))
    assert (result.status, result.failed[0].code) == ("partial", "LW-PLAN-005")
    assert "lake.sales.newcomer" in result.failed[0].message


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_new_table_elsewhere_stops_nothing(world: World, moment: str) -> None:
    orphans = add_late(world, ORDERS)

    def move() -> None:
        write_table(world.catalog(), "sales.newcomer").add_files([f"file://{orphans[-1]}"])

    result = apply_while(world, moment, move, orphans)
    assert (result.status, result.deleted.files) == ("done", 12)
    assert orphans[-1].exists()


@pytest.mark.parametrize("moment", MOMENTS)
def test_gc_switched_off_meanwhile(world: World, moment: str) -> None:
    def move() -> None:
        with world.table(ORDERS).transaction() as change:
            change.set_properties({"gc.enabled": "false"})

    result = apply_while(world, moment, move)
    assert sum(path.exists() for path in world.planted(ORDERS)) == (6 if moment == "before apply" else 5)
    assert not any(path.exists() for path in world.planted(CLICKS))
    assert result.status == "partial"
    assert "LW-TABLE-004" in result.failed[0].message


@pytest.mark.parametrize("what", ["metadata", "manifest"])
def test_a_table_that_becomes_unreadable(world: World, what: str) -> None:
    """Its root stops. So does every root in which it had files when it was last read."""
    late = plant_rows(world.table(CLICKS), "zzz/mine-{}.parquet")
    world.table(ORDERS).add_files([f"file://{late}"])
    _remember_reach(world, f"lake.{ORDERS}", CLICKS)

    def move() -> None:
        table = world.table(ORDERS)
        append(table, 300)
        victim = local_path(table.metadata_location)
        if what == "manifest":
            snapshot = table.current_snapshot()
            assert snapshot is not None
            victim = local_path(snapshot.manifests(table.io)[0].manifest_path)
        shutil.copy(victim, world.base / "whole")
        victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
        world.repair = lambda: shutil.copy(world.base / "whole", victim)  # type: ignore[attr-defined]

    plan = hand_plan(world)
    move()
    result = world.apply(plan)
    world.repair()  # type: ignore[attr-defined]
    assert all(path.exists() for path in world.planted())
    assert not world.lost()
    assert (result.status, len(result.failed)) == ("partial", 2)


def _remember_reach(world: World, identifier: str, outside: str) -> None:
    """What a plan would have recorded: this table has live files in that one's root."""
    from lakewarden.model.known_table import KnownTable

    deployment = world.warden._deployment
    prefix = f"{world.table(outside).location()}/"
    deployment.ledger.known_tables.record([KnownTable(identifier, "u", 1, 1, (prefix,), deployment.clock.now())])


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_orphan_that_a_table_took_in_before_its_catalog_lost_it_stays(world: World, moment: str) -> None:
    """Its own directory still holds its newest metadata, and that names the file in the other table's directory."""
    orphans = add_late(world, CLICKS)
    remember_fleet(world)

    def move() -> None:
        world.table(ORDERS).add_files([f"file://{orphans[-1]}"])
        world.catalog().drop_table(ORDERS)

    result = apply_while(world, moment, move, orphans)
    assert orphans[-1].exists()
    assert result.status == "partial"


def remember_fleet(world: World) -> None:
    """What a plan would have remembered: every table, read with all its manifests."""
    deployment = world.warden._deployment
    fleet = load_fleet(deployment, datetime.now(UTC))
    remember(deployment, fleet, {s.identifier: Reached(whole=s.metadata_location) for s in fleet.states})


def test_a_table_that_is_not_listed_any_more_keeps_its_root(world: World) -> None:
    """It may have been dropped, or its catalog may have lost it: the next plans will know."""
    result = apply_while(world, "before apply", lambda: world.catalog().drop_table(ORDERS))
    assert (result.status, result.deleted.files) == ("partial", 6)
    assert all(path.exists() for path in world.planted(ORDERS))


def test_every_batch_asks_the_catalogs_and_looks_on_only_where_their_answer_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    looked: list[object] = []
    pointers, doubted = revalidate.pointers_of, revalidate.doubted_now
    monkeypatch.setattr(revalidate, "pointers_of", lambda catalogs: asked.append(catalogs) or pointers(catalogs))
    monkeypatch.setattr(revalidate, "doubted_now", lambda *found: looked.append(found) or doubted(*found))
    plan = hand_plan(world)
    result = world.apply(plan, progress=at_batch(6, lambda: append(world.table(CLICKS), 100)))
    assert (result.status, result.deleted.files) == ("done", 12)
    assert len(asked) > 12
    # At the start, when the table had moved, and once more after that: what is settled has to be seen twice.
    assert len(looked) == 3
