"""Writers that commit while a plan is made: nothing that they reach is in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from lakewarden.warden import Warden
from tests.jobs.orphan_cleanup.site import Site, data_files, files_of, metadata, plant, register, write_file
from tests.support.deployments import Seen
from tests.support.lakes import append, local_path

LISTING, LISTED, JUDGED = "list and compare", "look again", "judge"


def planned(site: Site, at: dict[str, Callable[[], None]], warden: Warden | None = None) -> Seen:
    """A plan during which something happens as each stage begins."""

    def progress(stage: str, done: int, total: int) -> None:
        at.get(stage, lambda: None)()

    return site.plan(warden=warden, progress=progress)


def old_files(site: Site, name: str, count: int) -> list[str]:
    root = local_path(site.catalog.load_table(name).location())
    return [write_file(root / f"data/part=a/waiting-{i}.parquet") for i in range(count)]


def test_old_files_that_are_committed_before_or_after_the_listing_are_not_in_the_plan(site: Site) -> None:
    """By the table itself, by another one, by one that is new, and behind a tag and a branch only."""
    main = site.add("w.main")
    other = site.add("w.other")
    early, late, lent, newly, tagged, orphan = old_files(site, "w.main", 6)
    site.old()

    def before_listing() -> None:
        register(main, early)
        append(main, 40)

    def after_listing() -> None:
        register(main, late)
        register(other, lent)
        register(site.add("x.new"), newly)
        register(site.catalog.load_table("w.main"), tagged)
        table = site.catalog.load_table("w.main")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        table.manage_snapshots().create_tag(snapshot.snapshot_id, "keep").create_branch(
            snapshot.snapshot_id, "side"
        ).commit()
        # Behind the refs, main goes back: only they hold the last file now.
        table = site.catalog.load_table("w.main")
        parent = snapshot.parent_snapshot_id
        assert parent is not None
        table.manage_snapshots().rollback_to_snapshot(parent).commit()

    seen = planned(site, {LISTING: before_listing, LISTED: after_listing})
    assert {table.identifier: table.refusal for table in seen.plan.tables if table.refusal} == {}
    assert seen.orphans() == {local_path(orphan)}
    assert seen.plan.pointers["lake.w.main"] == site.catalog.load_table("w.main").metadata_location


def test_a_table_that_begins_to_use_a_root_meanwhile_leaves_the_root_for_the_next_plan(site: Site) -> None:
    table, apart = site.add("w.t"), site.add("w.apart")
    planted = plant(table, "data/{}.parquet"), plant(apart, "data/{}.parquet")
    site.old()
    seen = planned(site, {LISTED: lambda: void(site.add("x.inside", location=f"{table.location()}/inside"))})
    assert seen.refusal("w.t") == "LW-ROOT-001"
    assert "x.inside began to use" in seen.message("w.t")
    assert seen.orphans() == set(planted[1])


def test_a_table_that_appears_or_moves_and_cannot_be_read_stops_nobody_else(site: Site) -> None:
    table, apart = site.add("w.t"), site.add("w.apart")
    plant(table, "data/{}.parquet")
    planted = plant(apart, "data/{}.parquet")
    site.old()

    def break_things() -> None:
        new = site.add("x.broken")
        metadata(new).write_text("{")
        append(table, 40)
        metadata(site.catalog.load_table("w.t")).write_text("{")

    seen = planned(site, {LISTED: break_things})
    assert seen.refusal("w.t") == "LW-TABLE-001"
    assert seen.orphans() == set(planted)


def test_a_writer_that_never_rests_finds_no_file_of_its_in_the_plan(site: Site) -> None:
    """Each commit takes up an old file that lies there unreferenced, while the plan is made."""
    table = site.add("w.busy", appends=1)
    waiting = old_files(site, "w.busy", 60)
    site.old()
    done = threading.Event()
    taken: list[str] = []

    def write() -> None:
        for address in waiting:
            if done.is_set():
                return
            register(table, address)
            taken.append(address)

    writer = threading.Thread(target=write)

    def stop() -> None:
        # What is committed after the last look is apply's to find, not the plan's.
        done.set()
        writer.join()

    seen = planned(site, {LISTING: writer.start, LISTED: stop})
    reached: set[Path] = {local_path(address) for address in taken}
    assert taken
    assert not seen.orphans() & reached
    assert not seen.orphans() & set(data_files(site.catalog.load_table("w.busy")))
    left = {local_path(address) for address in waiting[len(taken) :]}
    assert seen.orphans() == left
    assert len(files_of(table)) > len(reached)


def void(_: object) -> None:
    """A call for its effect only."""
