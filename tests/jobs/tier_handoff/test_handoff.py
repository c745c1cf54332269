"""Tier handover on local disk: what is copied, how it opens, what is recorded, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewarden.jobs.tier_handoff import aged_files
from lakewarden.jobs.tier_handoff import run as handing
from lakewarden.model.errors import NotFoundError, RestoreError, StoreUnavailableError, UsageError
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.run import RunStatus
from lakewarden.model.tiers import HandoffPolicy
from lakewarden.pipeline.compare import needs
from lakewarden.steps.compare import compare as steps_compare
from lakewarden.storage import copying
from tests.jobs.snapshot_expiry.expiry_site import EXPIRY, Site, backdate, files_below, rows_at
from tests.jobs.tier_handoff.aged import (
    HANDOFF,
    age_out,
    cold_site,
    cold_table,
    detail_of,
    forget_manifests,
    hand_over,
    ids_of,
    inodes,
    made,
    shown,
)
from tests.support.lakes import append, local_path
from tests.support.policies import handoff_policy


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with cold_site(tmp_path) as site:
        yield site


def cold_directory(site: Site, seen: Any, identifier: str = "lake.sales.orders") -> Path:
    return local_path(detail_of(seen, identifier)["cold"])


def test_a_cold_table_shows_what_the_hot_snapshots_showed(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    hot = files_below(site.base / "warehouse")
    age_out(site, table, ids[:3])
    before = files_below(site.base / "warehouse")

    seen, result = hand_over(site)

    assert (result.status, dict(result.changed)) == (RunStatus.DONE, {"snapshots": 3, "files": 12})
    assert seen.plan.tables[0].changes == {"snapshots": 3, "files": 12}
    assert files_below(site.base / "warehouse") == before, "the hot side is only read"
    assert hot <= before
    shutil.move(site.base / "warehouse", site.base / "gone")
    cold = cold_table(seen)
    assert shown(cold, ids[:3]) == {number: rows[number] for number in ids[:3]}
    assert rows_at(cold) == rows[ids[2]], "main is the newest of them"
    names = {name: ref.snapshot_id for name, ref in cold.metadata.refs.items()}
    assert names == {"main": ids[2], **{f"snapshot-{number}": number for number in ids[:3]}}
    assert cold.properties["gc.enabled"] == "false"
    assert cold.metadata.table_uuid != table.metadata.table_uuid
    assert [entry.snapshot_id for entry in cold.metadata.snapshot_log] == ids[:3]


def test_the_ledger_knows_every_copy(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    age_out(site, table, ids[:2])
    seen, _ = hand_over(site)
    cold = site.warden._deployment.ledger.cold
    uris = [row["uri"] for row in seen.rows]
    assert {copy.uri for copy in cold.copies([*uris, "file:///never"])} == set(uris)
    assert [s.snapshot_id for s in cold.snapshots(str(table.metadata.table_uuid))] == sorted(ids[:2])
    assert cold.find(ids[0])[0].table_name == "lake.sales.orders"
    assert cold.find(7) == []
    for file in cold.copies(uris):
        copy = local_path(file.cold_uri).read_bytes()
        assert (len(copy), hashlib.sha256(copy).hexdigest()) == (file.size, file.sha256)


def test_the_next_night_copies_only_what_is_new_and_keeps_the_older_snapshots(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:2])
    seen, _ = hand_over(site)
    first = inodes(cold_directory(site, seen))
    age_out(site, table.refresh(), ids[2:3], run="run-2")

    again, result = hand_over(site)

    assert dict(result.changed) == {"snapshots": 1, "files": 4}
    assert detail_of(again)["already_cold"] == 6, "two manifests and four data files are shared"
    second = inodes(cold_directory(site, again))
    assert {name: second[name] for name in first if not name.endswith("version-hint.text")} == {
        name: inode for name, inode in first.items() if not name.endswith("version-hint.text")
    }, "nothing is copied twice"
    assert shown(cold_table(again), ids[:3]) == {number: rows[number] for number in ids[:3]}
    quiet, result = hand_over(site)
    assert quiet.plan.totals()["changes"] == {"snapshots": 0, "files": 0}
    assert "no snapshot" in detail_of(quiet)["inactive"]


def test_a_cold_table_that_is_registered_beside_the_hot_one(site: Site) -> None:
    """It is never swept, so that its directory may be its root; the next snapshots still go there."""
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:1])
    seen, _ = hand_over(site)
    site.catalog().register_table("sales.cold", cold_table(seen).metadata_location)
    age_out(site, table.refresh(), ids[1:2], run="run-2")
    again, result = hand_over(site)
    refusals = {t.identifier: t.refusal.code for t in again.plan.tables if t.refusal}
    assert (result.status, refusals) == (RunStatus.DONE, {"lake.sales.cold": "LW-TABLE-004"})
    assert shown(cold_table(again), ids[:2]) == {number: rows[number] for number in ids[:2]}


def test_files_of_one_name_and_files_outside_the_table_do_not_meet(site: Site) -> None:
    """Two data files of one name in two directories, and metadata that lies elsewhere."""
    elsewhere = f"file://{site.base}/other"
    table = made(
        site.catalog(),
        appends=3,
        properties={"write.metadata.path": f"{elsewhere}/m", "write.data.path": f"{elsewhere}/d"},
    )
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:2])
    seen, result = hand_over(site)
    assert result.status is RunStatus.DONE
    reasons = [row["reason"] for row in seen.rows]
    assert len(set(reasons)) == len(reasons)
    assert all("/elsewhere/file/_/" in reason for reason in reasons)
    shutil.move(site.base / "other", site.base / "gone")
    cold = cold_table(seen)
    assert shown(cold, ids[:2]) == {number: rows[number] for number in ids[:2]}
    assert "write.data.path" not in cold.properties
    site.warden.restore_cold(str(ids[1]), "lake.sales.back")
    assert rows_at(site.catalog().load_table("sales.back")) == rows[ids[1]]


def test_a_restored_snapshot_is_a_table_like_any_other(site: Site) -> None:
    table = made(site.catalog(), delete=True)
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:4])
    seen, _ = hand_over(site)
    for path in files_below(site.base / "warehouse"):
        path.unlink()

    result = site.warden.restore_cold(str(ids[3]), "lake.sales.back")

    back = site.catalog().load_table("sales.back")
    assert result.status is RunStatus.DONE
    assert rows_at(back) == rows[ids[3]]
    assert back.metadata.table_uuid not in (table.metadata.table_uuid, cold_table(seen).metadata.table_uuid)
    assert "gc.enabled" not in back.properties
    cold = files_below(site.base / "cold")
    append(back, 100)
    assert len(rows_at(back)) == len(rows[ids[3]]) + 4
    assert all(path.is_relative_to(local_path(back.location())) for path in files_below(site.base / "warehouse"))
    assert files_below(site.base / "cold") == cold
    with pytest.raises(RestoreError, match="already"):
        site.warden.restore_cold(str(ids[3]), "lake.sales.back")
    with pytest.raises(NotFoundError, match="namespace"):
        site.warden.restore_cold(str(ids[3]), "lake.nowhere.back")
    with pytest.raises(NotFoundError, match="no snapshot 7"):
        site.warden.restore_cold("7", "lake.sales.other")
    with pytest.raises(NotFoundError, match="catalog"):
        site.warden.restore_cold(str(ids[3]), "sea.sales.other")
    with pytest.raises(UsageError, match="snapshot id"):
        site.warden.restore_cold("newest", "lake.sales.other")
    with pytest.raises(UsageError, match="is not catalog"):
        site.warden.restore_cold(str(ids[3]), "orders")
    assert site.warden.audit_verify()["ok"]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("warehouse/sales/orders/cold", "orphan cleanup sweeps"),
        ("state/cold", "state.location"),
    ],
)
def test_a_cold_place_that_is_swept_or_ours_is_refused(tmp_path: Path, place: str, why: str) -> None:
    with cold_site(tmp_path, destination=f"file://{tmp_path}/{place}") as site:
        table = made(site.catalog(), appends=2)
        age_out(site, table, ids_of(table)[:1])
        planned = site.plan(HANDOFF).plan.tables[0]
        assert planned.refusal is not None
        assert (planned.refusal.code, why in planned.refusal.message) == ("LW-CONF-001", True)
        assert not (tmp_path / place).exists()


def test_a_disk_has_no_storage_classes(tmp_path: Path) -> None:
    with cold_site(tmp_path, storage_class="STANDARD_IA") as site:
        table = made(site.catalog(), appends=2)
        age_out(site, table, ids_of(table)[:1])
        planned = site.plan(HANDOFF).plan.tables[0]
        assert planned.refusal is not None
        assert "has no storage classes" in planned.refusal.message


def test_without_a_destination_nothing_is_copied(tmp_path: Path) -> None:
    with cold_site(tmp_path) as site:
        del site.sections["tier_handoff"]["destination"]
        table = made(site.catalog(), appends=2)
        age_out(site, table, ids_of(table)[:1])
        seen = site.plan(HANDOFF)
        assert seen.plan.tables[0].changes == {"snapshots": 0, "files": 0}
        assert "no destination" in detail_of(seen)["inactive"]


def test_a_snapshot_that_lost_a_file_is_named_and_the_others_go(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    lost = {t.file.file_path for t in table.scan(snapshot_id=ids[1]).plan_files()} - {
        t.file.file_path for t in table.scan(snapshot_id=ids[0]).plan_files()
    }
    age_out(site, table, ids[:3])
    local_path(min(lost)).unlink()
    seen, result = hand_over(site)
    assert dict(result.changed)["snapshots"] == 1
    assert {line["snapshot_id"] for line in detail_of(seen)["keep"]} == {ids[1], ids[2]}
    assert shown(cold_table(seen), ids[:1]) == {ids[0]: rows[ids[0]]}
    # What is left of it can never be handed over, and nobody of us deleted it.
    refused = site.plan(HANDOFF).plan.tables[0].refusal
    assert refused is not None
    assert min(lost) in refused.message


def test_what_we_deleted_ourselves_is_no_refusal(site: Site) -> None:
    """Physical deletion was quicker, as it may be where no cold copy is required: nothing to do about it every night."""
    table = made(site.catalog(), appends=2)
    ids = ids_of(table)
    gone = [task.file.file_path for task in table.scan(snapshot_id=ids[0]).plan_files()]
    age_out(site, table, ids[:1])
    ledger, actor = site.warden._deployment.ledger, site.warden.actor()
    ledger.runs.start("run-d", "physical-deletion", None, actor)
    ledger.journal.intent("run-d", 0, [JournalFile(uri, 1, None, None, "lake.sales.orders", "data") for uri in gone])
    ledger.journal.outcomes("run-d", 0, [FileOutcome(uri, "deleted") for uri in gone])
    for uri in gone:
        local_path(uri).unlink()
    planned = site.plan(HANDOFF).plan.tables[0]
    assert (planned.refusal, planned.changes["snapshots"]) == (None, 0)
    assert [line["reason"] for line in planned.detail["keep"]] == ["physical deletion was quicker: its files are gone"]


def test_a_file_that_goes_between_plan_and_apply_stops_only_its_table(site: Site) -> None:
    catalog = site.catalog()
    tables = [made(catalog, name, appends=3) for name in ("sales.orders", "sales.items")]
    ids = [ids_of(table) for table in tables]
    rows = shown(tables[1], ids[1])
    for table, numbers in zip(tables, ids, strict=True):
        age_out(site, table, numbers[:2])
    seen = site.plan(HANDOFF)
    gone = next(row["uri"] for row in seen.rows if row["table"] == "lake.sales.orders" and row["kind"] == "data")
    local_path(gone).unlink()
    result = site.apply(seen)
    assert result.status is RunStatus.PARTIAL
    assert [(file.uri, gone in file.message) for file in result.failed] == [("lake.sales.orders", True)]
    assert site.warden._deployment.ledger.cold.find(ids[0][0]) == []
    assert not list(cold_directory(site, seen).glob("metadata/*.metadata.json")), "an incomplete table never opens"
    cold = cold_table(seen, "lake.sales.items")
    assert shown(cold, ids[1][:2]) == {number: rows[number] for number in ids[1][:2]}


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("when", [3, 7, 10, "described"])
def test_a_run_that_dies_goes_on_where_it_stopped(site: Site, monkeypatch: pytest.MonkeyPatch, when: int | str) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:3])
    seen = site.plan(HANDOFF)
    monkeypatch.setattr(handing, "BATCH", 2)
    written: list[str] = []
    real_copy, real_write = copying.copy_verified, copying.write_verified

    def counted(real: Any) -> Any:
        def call(stores: Any, first: str, second: Any, *more: Any) -> Any:
            if len(written) == when:
                raise Killed
            written.append(first)
            return real(stores, first, second, *more)

        return call

    with monkeypatch.context() as patch:
        patch.setattr("lakewarden.jobs.tier_handoff.copy.copy_verified", counted(real_copy))
        patch.setattr("lakewarden.jobs.tier_handoff.copy.write_verified", counted(real_write))
        if when == "described":
            cold = site.warden._deployment.ledger.cold
            patch.setattr(cold, "add_snapshots", lambda _: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            site.apply(seen)
    assert site.warden._deployment.ledger.cold.find(ids[0]) == []
    before = inodes(cold_directory(site, seen))
    site.close()

    result = site.apply(seen)

    assert (result.status, dict(result.changed)) == (RunStatus.DONE, {"snapshots": 3, "files": 12})
    after = inodes(cold_directory(site, seen))
    again = [name for name in before if before[name] != after[name] and not name.endswith("version-hint.text")]
    assert len(again) <= 2, "only what was not on record is copied again"
    assert shown(cold_table(seen), ids[:3]) == {number: rows[number] for number in ids[:3]}


def test_a_copy_with_other_bytes_does_not_count(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(site.catalog(), appends=2)
    ids = ids_of(table)
    age_out(site, table, ids[:1])
    seen = site.plan(HANDOFF)
    disk = type(site.warden._deployment.stores.at("file:///"))
    real = disk.put_stream

    def damaged(self: Any, key: str, pieces: Iterator[bytes]) -> None:
        data = b"".join(pieces)
        real(self, key, iter((data[:-1] + b"?",)) if "/cold/" in key else iter((data,)))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "put_stream", damaged)
        with pytest.raises(StoreUnavailableError, match="does not count"):
            site.apply(seen)
    assert [run["status"] for run in site.warden.runs()] == ["stopped"]
    cold = site.warden._deployment.ledger.cold
    assert not list(cold.copies(row["uri"] for row in seen.rows))
    assert cold.find(ids[0]) == []
    # Nothing in the cold place is overwritten: somebody has to look at the damaged files, and to take them away.
    for path in files_below(site.base / "cold"):
        path.unlink()
    assert site.apply(seen).status is RunStatus.DONE


def test_the_budget_slows_the_copies(tmp_path: Path) -> None:
    with cold_site(tmp_path, max_megabytes_per_second=0.01) as site:
        table = made(site.catalog(), appends=2)
        age_out(site, table, ids_of(table)[:1])
        slept: list[float] = []
        site.clock.sleep = slept.append  # type: ignore[method-assign]
        seen, result = hand_over(site)
        assert result.status is RunStatus.DONE
        assert sum(slept) > 0
        assert sum(row["size"] for row in seen.rows) > 1000


def test_a_snapshot_without_files(site: Site) -> None:
    table = made(site.catalog(), appends=1)
    table.delete()
    append(table, 50)
    ids = ids_of(table.refresh())
    rows = shown(table, ids)
    age_out(site, table, ids[:-1])
    seen, result = hand_over(site)
    assert result.status is RunStatus.DONE
    assert shown(cold_table(seen), ids[:-1]) == {number: rows[number] for number in ids[:-1]}
    assert () in rows.values()
    site.warden.restore_cold(str(ids[1]), "lake.sales.empty")
    assert rows_at(site.catalog().load_table("sales.empty")) == ()


def test_what_the_table_still_has_is_not_handed_over(site: Site) -> None:
    """Metadata is archived before expiry commits; a run that died in between expired nothing."""
    table = made(site.catalog(), appends=3)
    ids = ids_of(table)
    age_out(site, table, ids[:1])
    deployment = site.warden._deployment
    archive = deployment.ledger.archives.of(str(table.metadata.table_uuid))[0]
    deployment.ledger.archives.add(replace(archive, run_id="run-0", snapshots=tuple(ids)))
    assert [line["snapshot_id"] for line in detail_of(site.plan(HANDOFF))["snapshots"]] == ids[:1]


def test_a_changed_archive_is_not_believed(site: Site) -> None:
    table = made(site.catalog(), appends=2)
    age_out(site, table, ids_of(table)[:1])
    archive = site.warden._deployment.ledger.archives.of(str(table.metadata.table_uuid))[0]
    path = local_path(archive.uri)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"snap-", b"snip-")))
    refused = site.plan(HANDOFF).plan.tables[0].refusal
    assert refused is not None
    assert "was changed" in refused.message


def test_whose_live_refs_count_for_an_archive_class(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another table may have added the file; and where one cannot be read, any file may be its."""
    catalog = site.catalog()
    table = made(catalog, appends=1)
    ids = ids_of(table)
    files = [task.file.file_path for task in table.scan().plan_files()]
    other = catalog.create_table("sales.other", table.schema(), partition_spec=table.spec())
    other.add_files(files[:1])
    table.delete()
    age_out(site, table.refresh(), ids)

    def live() -> set[str]:
        return {row["uri"] for row in site.plan(HANDOFF).rows if row["kind"] == "data" and row["verdict"] == "live"}

    assert live() == set()
    monkeypatch.setattr(HandoffPolicy, "archives", True)
    assert live() == {files[0]}
    with other.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    assert live() == set(files)


def test_a_process_that_is_killed_goes_on(tmp_path: Path) -> None:
    with cold_site(tmp_path, max_megabytes_per_second=0.01, max_concurrent_copies=1) as site:
        table = made(site.catalog())
        ids = ids_of(table)
        rows = shown(table, ids)
        age_out(site, table, ids[:3])
        seen = site.plan(HANDOFF)
        command = [sys.executable, "-m", "lakewarden", "apply", seen.path, "--yes", "--config", site.config()]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            cold = cold_directory(site, seen)
            deadline = time.monotonic() + 60
            while not list(cold.rglob("*.avro")) and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        assert 0 < len(list(cold.rglob("*.avro"))) < 6, "in the middle of the manifests"
        assert not list(cold.rglob("*.metadata.json"))
        before = inodes(cold)
        result = site.apply(seen)
        assert (result.status, dict(result.changed)) == (RunStatus.DONE, {"snapshots": 3, "files": 12})
        after = inodes(cold)
        data = [name for name in before if name.endswith(".parquet")]
        assert len(data) == 6
        assert all(before[name] == after[name] for name in data), "recorded before, so not copied again"
        assert shown(cold_table(seen), ids[:3]) == {number: rows[number] for number in ids[:3]}


def test_a_live_file_never_goes_to_an_archive() -> None:
    for name, archives in (("GLACIER", True), ("DEEP_ARCHIVE", True), ("glacier", True), ("GLACIER_IR", False)):
        policy = handoff_policy(storage_class=name)
        assert policy.archives is archives
        assert policy.class_for(live=False) == name
        assert policy.class_for(live=True) == (None if archives else name)


@pytest.mark.usefixtures("spark")
def test_many_manifests_are_read_in_spark_with_the_same_plan(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    lost = {t.file.file_path for t in table.scan(snapshot_id=ids[2]).plan_files()} - {
        t.file.file_path for t in table.scan(snapshot_id=ids[1]).plan_files()
    }
    table.manage_snapshots().create_tag(ids[0], "kept").commit()
    age_out(site, table.refresh(), ids[1:3])
    local_path(min(lost)).unlink()
    few = site.plan(HANDOFF)
    for module, limit in ((steps_compare, "FEW_LISTS"), (needs, "FEW_MANIFESTS"), (aged_files, "FEW_ENTRIES")):
        monkeypatch.setattr(module, limit, 0)
    forget_manifests(site)
    many = site.plan(HANDOFF)
    assert {row["verdict"] for row in few.rows} == {"live", "pending"}
    assert sorted(few.rows, key=str) == sorted(many.rows, key=str)
    assert (detail_of(few), few.plan.totals()) == (detail_of(many), many.plan.totals())


@pytest.mark.usefixtures("spark")
def test_a_night(tmp_path: Path) -> None:
    """Expiry, deletion that waits, handover, deletion, and the way back when nothing is left of the hot files."""
    with cold_site(tmp_path) as site:
        site.sections["physical_deletion"]["require_cold_copy"] = True
        table = made(site.catalog(), delete=True)
        ids = backdate(table, int(site.clock.now().timestamp() * 1000))
        table = site.catalog().load_table("sales.orders")
        rows = shown(table, ids)
        assert site.run(EXPIRY).changed["snapshots"] == 4
        released = site.pending()
        assert released
        site.delete_released()
        assert all(path.exists() for path in released), "no file goes before its copy is there"
        seen, result = hand_over(site)
        assert dict(result.changed)["snapshots"] == 4
        site.delete_released()
        assert not any(path.exists() for path in released)
        assert rows_at(site.catalog().load_table("sales.orders")) == rows[ids[4]]
        assert shown(cold_table(seen), ids[:4]) == {number: rows[number] for number in ids[:4]}
        site.warden.restore_cold(str(ids[0]), "lake.sales.back")
        assert rows_at(site.catalog().load_table("sales.back")) == rows[ids[0]]
