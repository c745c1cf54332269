"""The cold place after the first night: nothing in it is overwritten, left out or believed without a look."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from lakewarden.jobs.tier_handoff import aged_files, look
from lakewarden.ledger.cold import ColdFile
from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.run import RunStatus
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.names import KIND_CODES
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of, edit, rows_at
from tests.jobs.tier_handoff.aged import (
    HANDOFF,
    age_out,
    cold_site,
    cold_table,
    detail_of,
    hand_over,
    ids_of,
    inodes,
    made,
    shown,
)
from tests.support.lakes import local_path, write_table


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with cold_site(tmp_path) as site:
        yield site


def overwritten(site: Site, table: Table, directory: Path, numbers: Sequence[int]) -> int:
    """Add a file that has one name wherever it lies, then overwrite it; its snapshot."""
    path = directory / "dt=1/part-00000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(numbers, pa.int64()), "part": ["p"] * len(numbers)}), path)
    table.add_files([f"file://{path}"])
    number = table.refresh().current_snapshot().snapshot_id  # type: ignore[union-attr]
    table.overwrite(pa.table({"id": pa.array([100], pa.int64()), "part": ["z"]}))
    return int(number)


def located(site: Site, table: Table, location: Path) -> Table:
    """The table, with another location from now on."""
    edit(table, document_of(table) | {"location": f"file://{location}"})
    return site.catalog().load_table("sales.orders")


def copies_of(seen: Any, kind: str) -> list[Path]:
    return sorted(local_path(row["reason"]) for row in seen.rows if row["kind"] == kind)


@pytest.mark.parametrize("dies", [False, True])
def test_files_of_one_path_below_two_locations(site: Site, monkeypatch: pytest.MonkeyPatch, dies: bool) -> None:
    """The cold directory keeps its first location, also where the first run died before there was any metadata."""
    table = write_table(site.catalog(), "sales.orders", partitioned=False, appends=0)
    first = overwritten(site, table, local_path(table.location()), [1, 2])
    age_out(site, table.refresh(), [first])
    with monkeypatch.context() as patch:
        if dies:
            patch.setattr("lakewarden.jobs.tier_handoff.run.Run._describe", lambda *_: None)
        hand_over(site)
    table = located(site, table.refresh(), site.base / "warehouse/sales/moved")
    second = overwritten(site, table, site.base / "warehouse/sales/moved", [7, 8])
    rows = rows_at(table, second)
    age_out(site, table.refresh(), [second], run="run-2")

    again, result = hand_over(site)

    assert result.status is RunStatus.DONE
    assert any("/elsewhere/" in str(path) for path in copies_of(again, "data"))
    shutil.move(site.base / "warehouse", site.base / "gone")
    assert shown(cold_table(again), [first, second]) == {first: ((1, "p"), (2, "p")), second: rows}


def test_a_plan_for_another_location_than_the_cold_directory_has_by_now(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    age_out(site, table, ids[:1])
    old = site.plan(HANDOFF)
    seen, _ = hand_over(site)
    for document in (local_path(detail_of(seen)["cold"]) / "metadata").glob("v*.json"):
        changed = document.read_text().replace('"cold-copy.location": "', '"cold-copy.location": "file:///first')
        document.write_text(changed)
    result = site.apply(old)
    assert (result.status, result.failed[0].code) == (RunStatus.FAILED, "LW-PLAN-005")
    assert "file:///first" in result.failed[0].message


@pytest.mark.parametrize("when", ["before the plan", "before apply"])
def test_an_address_that_another_file_has_is_refused_by_name(site: Site, when: str) -> None:
    table = made(site.catalog(), appends=2)
    age_out(site, table, ids_of(table)[:1])
    seen = site.plan(HANDOFF)
    target = next(row["reason"] for row in seen.rows if row["kind"] == "data")
    deployment = site.warden._deployment
    deployment.stores.put(target, b"the other file's")
    uuid, now = str(table.metadata.table_uuid), deployment.clock.now()
    deployment.ledger.cold.add([ColdFile("file:///other/x", canonical(target), uuid, "run", 16, "aa", now)])
    if when == "before the plan":
        refusal = site.plan(HANDOFF).plan.tables[0].refusal
        assert refusal is not None
        message = refusal.message
    else:
        result = site.apply(seen)
        assert result.status is RunStatus.PARTIAL
        message = result.failed[0].message
    assert f"{target}, where it would go, holds the copy of file:///other/x" in message
    assert local_path(target).read_bytes() == b"the other file's"


@pytest.mark.parametrize("kind", ["data", "manifest"])
def test_what_is_there_already_is_compared_and_never_overwritten(site: Site, kind: str) -> None:
    """Whoever wrote it: the ledger may have been lost, and a cold snapshot may need it."""
    table = made(site.catalog(), appends=2)
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:1])
    seen = site.plan(HANDOFF)
    target = copies_of(seen, kind)[0]
    target.parent.mkdir(parents=True)
    target.write_bytes(b"somebody's")
    with pytest.raises(StoreUnavailableError, match="is there already with other bytes") as stopped:
        site.apply(seen)
    assert "move it away and apply again" in stopped.value.hint
    assert [run["status"] for run in site.warden.runs()] == ["stopped"]
    assert target.read_bytes() == b"somebody's"
    target.unlink()
    assert site.apply(seen).status is RunStatus.DONE
    with site.warden._deployment.ledger.cold._connections.write() as connection:
        connection.exec_driver_sql("DELETE FROM lw_cold_files")
        connection.exec_driver_sql("DELETE FROM lw_cold_snapshots")
    directory = local_path(detail_of(seen)["cold"])
    before = inodes(directory)
    again, result = hand_over(site)
    assert (result.status, dict(result.changed)) == (RunStatus.DONE, {"snapshots": 1, "files": 4})
    after = inodes(directory)
    assert {name: after[name] for name in before if "version-hint" not in name} == {
        name: inode for name, inode in before.items() if "version-hint" not in name
    }
    assert shown(cold_table(again), ids[:1]) == {ids[0]: rows[ids[0]]}


def test_a_copy_that_vanished_is_made_again(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:1])
    seen, _ = hand_over(site)
    shutil.rmtree(local_path(detail_of(seen)["cold"]) / "data")
    age_out(site, table.refresh(), ids[1:2], run="run-2")
    again, _ = hand_over(site)
    assert detail_of(again)["already_cold"] == 1, "the manifest"
    assert shown(cold_table(again), ids[:2]) == {number: rows[number] for number in ids[:2]}


def test_a_copy_that_vanished_before_its_snapshot_was_handed_over(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:1])
    with monkeypatch.context() as patch:
        patch.setattr("lakewarden.jobs.tier_handoff.run.Run._describe", lambda *_: None)
        hand_over(site)
    seen = site.plan(HANDOFF)
    assert detail_of(seen)["already_cold"] == 4
    shutil.rmtree(local_path(detail_of(seen)["cold"]) / "data")
    seen, result = hand_over(site)
    assert (detail_of(seen)["already_cold"], dict(result.changed)["files"]) == (2, 2)
    assert shown(cold_table(seen), ids[:1]) == {ids[0]: rows[ids[0]]}


def test_a_copy_and_its_source_that_vanished_leave_the_snapshot_out_by_name(site: Site) -> None:
    table = made(site.catalog(), appends=3)
    ids = ids_of(table)
    age_out(site, table, ids[:1])
    seen, _ = hand_over(site)
    source = next(row["uri"] for row in seen.rows if row["kind"] == "data")
    shutil.rmtree(local_path(detail_of(seen)["cold"]) / "data")
    local_path(source).unlink()
    age_out(site, table.refresh(), ids[1:2], run="run-2")
    refusal = site.plan(HANDOFF).plan.tables[0].refusal
    assert refusal is not None
    assert source in refusal.message


def test_an_emptied_cold_place_is_filled_again(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:2])
    hand_over(site)
    shutil.rmtree(site.base / "cold")
    again, result = hand_over(site)
    assert dict(result.changed)["snapshots"] == 2
    assert shown(cold_table(again), ids[:2]) == {number: rows[number] for number in ids[:2]}


def test_holes_that_the_last_look_still_found_refuse_the_table(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(site.catalog(), appends=0)
    for number in range(4):
        (table.overwrite if number else table.append)(pa.table({"id": pa.array([number], pa.int64()), "part": ["p"]}))
    whole = [number for number in ids_of(table) if rows_at(table, number)]
    files = [task.file.file_path for number in whole[:3] for task in table.scan(snapshot_id=number).plan_files()]
    age_out(site, table, ids_of(table)[:-1])
    for uri in files[:2]:
        local_path(uri).unlink()
    monkeypatch.setattr(look, "MOST_LOST", 1)
    monkeypatch.setattr(aged_files, "LOOKS", 2)
    refusal = site.plan(HANDOFF).plan.tables[0].refusal
    assert refusal is not None
    assert "looks did not find them all" in refusal.message
    monkeypatch.setattr(aged_files, "LOOKS", 3)
    assert {line["snapshot_id"] for line in detail_of(site.plan(HANDOFF))["keep"]} == set(whole[:2])


def test_statistics_do_not_use_up_the_names_of_lost_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "MOST_LOST", 1)
    rows = [
        {c.TABLE: 0, c.KEY: f"file:///{number}", c.KIND: KIND_CODES[kind]}
        for number, kind in enumerate((Kind.STATISTICS, Kind.STATISTICS, Kind.DATA, Kind.DATA))
    ]
    assert [row[c.KEY] for row in look._lost(rows)] == ["file:///2"]


def test_a_ledger_that_was_begun_anew_leaves_no_snapshot_out(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:2])
    hand_over(site)
    site.close()
    shutil.rmtree(site.base / "state")
    for mark in site.base.rglob("owner-*.json"):
        mark.unlink()
    age_out(site, table.refresh(), ids[2:3], run="run-2")
    again, _ = hand_over(site)
    assert shown(cold_table(again), ids[:3]) == {number: rows[number] for number in ids[:3]}


def test_a_cold_directory_of_another_table_is_refused(site: Site) -> None:
    table = made(site.catalog(), appends=2)
    ids = ids_of(table)
    age_out(site, table, ids[:1])
    seen, _ = hand_over(site)
    document = local_path(detail_of(seen)["cold"]) / "metadata/v1.metadata.json"
    uuid = str(table.metadata.table_uuid)
    document.write_text(document.read_text().replace(uuid, uuid[:8] + "-0000-4000-8000-000000000000"))
    deployment = site.warden._deployment
    archive = deployment.ledger.archives.of(uuid)[0]
    deployment.ledger.archives.add(replace(archive, run_id="run-2"))
    refusal = site.plan(HANDOFF).plan.tables[0].refusal
    assert refusal is not None
    assert "holds the copy of the table with the uuid" in refusal.message
