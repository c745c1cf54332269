"""What history archives: every snapshot of both formats once, whoever else is at work and whenever a run dies."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from lakewarden.model.errors import ArchiveDamagedError, NotFoundError
from lakewarden.pipeline.history.rows import read_file
from lakewarden.steps.history import files as archive_files
from tests.jobs.history.archived import HISTORY, ROWS, Site, committed_again, ids
from tests.support.deployments import sqlite_properties


def test_every_snapshot_of_both_formats_is_archived_once(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 3, **{"writer.id": "ingest", "trigger.type": "schedule"})
        table.manage_snapshots().create_tag(table.refs()["main"].snapshot_id, "v1").commit()
        table.manage_snapshots().create_branch(next(iter(ids(table))), "side").commit()
        table.append(ROWS, branch="side")
        stream = site.paimon("clicks", 2)
        plan = site.plan(HISTORY)
        assert {t.identifier: t.changes["rows"] for t in plan.plan.tables} == {
            "lake.db.events": 4,
            "stream.db.clicks": 2,
        }
        assert site.apply(plan).changed == {"rows": 6}
        assert set(site.keys().values()) == {1}
        rows = {row["snapshot_id"]: row for row in site.rows() if row["format"] == "iceberg"}
        assert rows.keys() == ids(table)
        for snapshot in table.snapshots():
            row = rows[snapshot.snapshot_id]
            assert row["parent_id"] == snapshot.parent_snapshot_id
            assert row["sequence"] == snapshot.sequence_number
            assert row["committed_ms"] == snapshot.timestamp_ms
            assert row["manifest_list"] == snapshot.manifest_list
            assert dict(row["summary"]) == {"operation": "append", **snapshot.summary.additional_properties}
            assert row["metadata_location"] == table.metadata_location
            assert row["uuid"] == str(table.metadata.table_uuid)
            assert json.loads(row["document"])["snapshot-id"] == snapshot.snapshot_id
        head = table.refs()["main"].snapshot_id
        assert rows[head]["refs"] == ["branch main", "tag v1"]
        assert rows[table.refs()["side"].snapshot_id]["refs"] == ["branch side"]
        paimon = [row for row in site.rows() if row["format"] == "paimon"]
        assert [(row["snapshot_id"], row["operation"], row["refs"]) for row in paimon] == [
            (1, "append", []),
            (2, "append", ["branch main"]),
        ]
        assert stream.path.is_dir()
        # The archive lies in the state, and nothing is left to do.
        assert all(file.uri.startswith(f"file://{tmp_path}/state/history/detail/") for file in site.files())
        assert site.run(HISTORY).changed == {"rows": 0}


def test_a_table_that_is_upgraded_is_not_archived_again(tmp_path: Path) -> None:
    """Version 2 gives every snapshot a sequence number: it is the same snapshot all the same."""
    with Site.at(tmp_path) as site:
        site.catalog().create_namespace("db")
        table = site.catalog().create_table("db.old", ROWS.schema, properties={"format-version": "1"})
        table.append(ROWS)
        assert site.run(HISTORY).changed == {"rows": 1}
        with table.transaction() as change:
            change.upgrade_table_version(2)
        assert table.snapshots()[0].sequence_number == 0
        assert site.run(HISTORY).changed == {"rows": 0}
        assert len(site.warden.audit_who(str(table.snapshots()[0].snapshot_id))) == 1


def test_a_snapshot_whose_parent_expired_is_not_archived_again(tmp_path: Path) -> None:
    """PyIceberg takes the parent out of what is left: else each of its expiries would count a commit once more."""
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 3)
        assert site.run(HISTORY).changed == {"rows": 3}
        first, second, _ = table.snapshots()
        table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
        assert table.refresh().snapshots()[0].parent_snapshot_id is None
        assert site.run(HISTORY).changed == {"rows": 0}
        (row,) = (row for row in site.rows() if row["snapshot_id"] == second.snapshot_id)
        assert row["parent_id"] == first.snapshot_id
        assert len(site.warden.audit_origin(str(second.snapshot_id))["origins"]) == 1
        assert site.warden.audit_downstream(str(second.snapshot_id))["from"][0]["state"] == "live"


def test_a_tag_of_an_older_version_is_the_same_commit(tmp_path: Path) -> None:
    """What it does not know is left out of its copy."""
    with Site.at(tmp_path) as site:
        table = site.paimon("clicks", 2)
        document = json.loads((table.path / "snapshot/snapshot-1").read_text())
        assert site.run(HISTORY).changed == {"rows": 2}
        left_out = {"uuid", "writerVersion", "operation", "nextRowId", "properties"}
        copy = {name: value for name, value in document.items() if name not in left_out} | {"watermark": None}
        (table.path / "tag").mkdir(exist_ok=True)
        (table.path / "tag/tag-old").write_text(json.dumps(copy))
        assert site.run(HISTORY).changed == {"rows": 0}


def test_a_table_that_two_catalogs_show_is_archived_once(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 2)
        (tmp_path / "other").mkdir()
        site.catalogs["other"] = sqlite_properties(tmp_path / "other")
        other = load_catalog("other", **site.catalogs["other"])
        other.create_namespace("db")
        other.register_table("db.events", table.metadata_location)
        assert site.run(HISTORY).changed == {"rows": 2}
        assert len(site.rows()) == 2


def test_two_workers_at_once_archive_each_snapshot_once(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 6)
        site.paimon("clicks", 3)
        plans = [site.plan(HISTORY), site.plan(HISTORY)]
        wardens = [site.warden, site.another()]
        start = threading.Barrier(2)
        ended: list[object] = []

        def apply(place: int) -> None:
            start.wait()
            ended.append(wardens[place].apply(plans[place].path).changed["rows"])

        threads = [threading.Thread(target=apply, args=(place,)) for place in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(ended) == 9, ended  # type: ignore[arg-type]
        assert len(site.keys()) == 9
        assert set(site.keys().values()) == {1}
        assert len(ids(table)) == 6


@pytest.mark.parametrize("point", ["written", "entered"])
def test_a_crash_leaves_the_same_rows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    class CrashError(BaseException):
        pass

    with Site.at(tmp_path) as site:
        site.iceberg("events", 3)
        plan = site.plan(HISTORY)
        history = site.warden._deployment.ledger.history
        entered = history.add

        def add(*given: object) -> bool:
            if point == "entered":
                entered(*given)  # type: ignore[arg-type]
            raise CrashError

        monkeypatch.setattr(history, "add", add)
        with pytest.raises(CrashError):
            site.apply(plan)
        site.close()
        assert len(list((tmp_path / "state/history").rglob("*.parquet"))) == 1
        assert site.apply(plan).changed == {"rows": 3}
        assert set(site.keys().values()) == {1}
        assert len(site.keys()) == 3
        # The same rows have the same name: a crash leaves no second file behind.
        assert len(list((tmp_path / "state/history").rglob("*.parquet"))) == 1


def test_a_name_taken_by_half_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Site.at(tmp_path) as site:
        site.iceberg("events", 2)
        real = archive_files.packed

        def packed(table: object) -> bytes:
            data = real(table)  # type: ignore[arg-type]
            name = hashlib.sha256(data).hexdigest()
            month = f"{site.clock.now():%Y-%m}"
            half = tmp_path / "state/history/detail" / month / f"{name}.parquet"
            half.parent.mkdir(parents=True, exist_ok=True)
            half.write_bytes(data[:100])
            return data

        monkeypatch.setattr(archive_files, "packed", packed)
        assert site.run(HISTORY).changed == {"rows": 2}
        assert site.files()[0].uri.endswith("-1.parquet")
        assert len(site.keys()) == 2


def test_a_table_made_again_under_its_name_is_another_one(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        site.iceberg("events", 2)
        site.run(HISTORY)
        site.catalog().drop_table("db.events")
        site.warden.forget("lake.db.events", "dropped on purpose")
        again = site.iceberg("events", 1)
        assert site.run(HISTORY).changed == {"rows": 1}
        uuids = {row["uuid"] for row in site.rows()}
        assert len(uuids) == 2
        assert str(again.metadata.table_uuid) in uuids


def test_a_paimon_snapshot_that_was_committed_again_is_archived_again(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.paimon("clicks", 3)
        site.run(HISTORY)
        committed_again(table, 3)
        plan = site.plan(HISTORY)
        assert plan.table("stream.db.clicks").changes["rows"] == 1
        assert site.apply(plan).changed["rows"] == 1
        threes = [row for row in site.rows() if row["snapshot_id"] == 3]
        assert len({row["digest"] for row in threes}) == 2


def test_a_lost_file_is_named_and_what_tables_still_have_is_archived_anew(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        site.iceberg("events", 3)
        site.run(HISTORY)
        (file,) = site.files()
        data = bytearray(site.path(file).read_bytes())
        data[200] ^= 1
        site.path(file).write_bytes(data)
        with pytest.raises(ArchiveDamagedError, match=file.uri):
            read_file(site.warden._deployment.stores, file.uri, file.sha256)
        plan = site.plan(HISTORY)
        assert plan.table("db.events").changes["rows"] == 3
        assert list(plan.plan.detail["lost"]) == [file.uri]
        assert site.apply(plan).changed == {"rows": 3}
        lost, whole = site.files()
        assert "is damaged" in str(lost.lost)
        assert whole.lost is None
        assert len(site.keys()) == 3
        shutil.rmtree(site.path(whole).parent)
        gone = site.plan(HISTORY)
        assert "is gone" in gone.plan.detail["lost"][whole.uri]


def test_a_lost_file_that_is_there_again_counts_again(tmp_path: Path) -> None:
    """A mount that was away for one night must not cost the rows of snapshots that no table has any more."""
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 3)
        site.run(HISTORY)
        first = table.history()[0].snapshot_id
        table.maintenance.expire_snapshots().by_id(first).commit()
        (file,) = site.files()
        path = site.path(file)
        path.rename(path.with_suffix(".away"))
        assert site.run(HISTORY).changed == {"rows": 2}
        with pytest.raises(NotFoundError):
            site.warden.audit_origin(str(first))
        assert "found" not in site.plan(HISTORY).plan.detail

        path.with_suffix(".away").rename(path)
        plan = site.plan(HISTORY)
        assert (plan.plan.detail, plan.table("db.events").changes) == ({"found": [file.uri]}, {"rows": 0})
        result = site.apply(plan)
        assert result.changed == {"rows": 0}
        assert {"file": file.uri, "rows": 1} in [
            step["detail"] for step in site.warden.run_detail(result.run_id)["steps"]
        ]
        (found,) = site.warden.audit_origin(str(first))["origins"]
        assert (found["state"], found["archive_file"]) == ("archived", file.uri)
        assert "lost_archive_files" not in site.warden.audit_origin(str(first))
        # What was archived anew meanwhile has a row in both files, and counts once.
        assert site.warden._deployment.ledger.history.snapshots() == 3
        second = table.history()[-1].snapshot_id
        assert len(site.warden.audit_origin(str(second))["origins"]) == 1
        assert site.plan(HISTORY).plan.detail == {}


def test_a_file_that_only_looks_like_the_lost_one_stays_lost(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        site.iceberg("events", 2)
        site.run(HISTORY)
        (file,) = site.files()
        data = site.path(file).read_bytes()
        site.path(file).unlink()
        site.run(HISTORY)
        site.path(file).write_bytes(data)
        plan = site.plan(HISTORY)
        assert plan.plan.detail == {}, "the same rows were archived again under the same name"
        lost = next(iter(site.files()))
        assert lost.lost is None
        site.path(lost).write_bytes(data[:-1])
        site.run(HISTORY)
        assert site.plan(HISTORY).plan.detail.get("found") is None
