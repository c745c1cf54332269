"""Branches of Iceberg tables on a SQL catalog: which are broken, and that no other one ever goes by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.formats.iceberg.commit.versions import SqlVersions
from lakewarden.model.errors import NothingAppliedError, PlanOutdatedError, StoreUnavailableError
from lakewarden.storage.posix import LocalDisk
from tests.jobs.snapshot_expiry.expiry_site import EXPIRY, ORPHANS, Site, document_of, edit
from tests.jobs.stale_branches.branchy import (
    JOB,
    at_each,
    branch,
    break_branch,
    going,
    head,
    line,
    list_of,
    make_table,
    refs,
    rows,
    site_of,
    states,
)
from tests.support.lakes import local_path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_of(tmp_path) as found:
        yield found


def test_only_what_is_broken_goes(site: Site) -> None:
    """A valid branch that diverged, or whose base main has expired, is somebody's data."""
    table = make_table(site.catalog(), "db.t")
    branch(table, "work", 100)
    branch(table, "lost", 200)
    branch(table, "level")
    branch(table, "ahead", 300)
    table.manage_snapshots().create_tag(table.history()[0].snapshot_id, "release").commit()
    table.append(rows(50))
    gone = break_branch(table, "lost")

    plan = site.plan(JOB)
    found = plan.table("db.t")
    assert states(found) == {"work": "diverged", "lost": "broken", "ahead": "diverged"}
    assert going(found) == {"lost"}
    assert found.changes == {"refs": 1}
    assert line(found, "lost")["gone"] == [list_of(table, "lost")]
    assert gone.name in line(found, "lost")["reason"]

    result = site.apply(plan)
    assert (result.status, dict(result.changed), result.failed) == ("done", {"refs": 1}, ())
    assert refs(table) == {"main", "work", "level", "ahead", "release"}
    assert len(table.scan(snapshot_id=head(table, "work").snapshot_id).to_arrow()) == 8
    assert not site.plan(JOB).table("db.t").changes["refs"]


def expire_base(site: Site, name: str = "db.t") -> None:
    """Main's old snapshots expire outside, by their ids, as an engine does: the branch keeps its own."""
    table = site.catalog().load_table(name)
    document = document_of(table)
    head = document["current-snapshot-id"]
    kept = {ref["snapshot-id"] for ref in document["refs"].values()}
    document["snapshots"] = [s for s in document["snapshots"] if s["snapshot-id"] in kept | {head}]
    document["snapshot-log"] = document["snapshot-log"][-1:]
    edit(table, document)


def test_the_rule_of_the_seed_is_there_for_whoever_asks_for_it(site: Site) -> None:
    """The branch's base has expired: it can be read all the same, so it goes only where the policy says so."""
    table = make_table(site.catalog(), "db.t")
    branch(table, "old", 100)
    table.append(rows(50))
    expire_base(site)
    plan = site.plan(JOB)
    assert states(plan.table("db.t")) == {"old": "detached"}
    assert not going(plan.table("db.t"))

    site.sections["stale_branches"]["remove"] = ["broken", "detached"]
    site.close()
    plan = site.plan(JOB)
    assert going(plan.table("db.t")) == {"old"}
    assert site.apply(plan).changed == {"refs": 1}
    assert refs(table) == {"main"}


def test_a_branch_that_leads_to_no_snapshot_refuses_its_table(site: Site) -> None:
    """The document lost something: the ref is the only sign of it, and takes the sign away if it goes."""
    table = make_table(site.catalog(), "db.t")
    branch(table, "old", 100)
    number = head(table, "old").snapshot_id
    document = document_of(table)
    document["snapshots"] = [s for s in document["snapshots"] if s["snapshot-id"] != number]
    edit(table, document)
    assert site.plan(JOB).refusal("db.t") == "LW-TABLE-012"
    assert [found["ref"] for found in site.warden.doctor()["broken_refs"]] == ["old"]


def test_a_ref_that_moves_during_apply_is_left_alone_by_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(site.catalog(), "db.t")
    for name in ("lost", "moved"):
        branch(table, name, 100)
        break_branch(table, name)
    plan = site.plan(JOB)
    assert going(plan.table("db.t")) == {"lost", "moved"}

    def move() -> None:
        other = site.catalog().load_table("db.t")
        other.manage_snapshots().remove_branch("moved").commit()
        other.manage_snapshots().create_branch(head(other, "main").snapshot_id, "moved").commit()

    at_each(move, SqlVersions, "expire", monkeypatch)
    result = site.apply(plan)
    assert refs(table) == {"main", "moved"}
    assert (result.status, dict(result.changed)) == ("partial", {"refs": 1})
    assert [(failed.uri, failed.code) for failed in result.failed] == [("lake.db.t moved", PlanOutdatedError.code)]


def test_a_branch_that_its_owner_removes_in_the_last_moment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written down and about to go: it went by another hand, and is not brought back as if it were ours."""
    table = make_table(site.catalog(), "db.t")
    for name in ("lost", "theirs"):
        branch(table, name, 100)
        break_branch(table, name)
    plan = site.plan(JOB)

    def remove() -> None:
        site.catalog().load_table("db.t").manage_snapshots().remove_branch("theirs").commit()

    at_each(remove, SqlVersions, "expire", monkeypatch)
    result = site.apply(plan)
    assert refs(table) == {"main"}
    assert (result.status, dict(result.changed)) == ("partial", {"refs": 1})
    assert [failed.message for failed in result.failed] == ["somebody else removed it since the plan"]
    assert site.warden.restore(result.run_id).changed == {"restored": 1}
    assert refs(table) == {"main", "lost"}


def test_a_list_that_is_there_again_keeps_its_branch(site: Site) -> None:
    table = make_table(site.catalog(), "db.t")
    branch(table, "lost", 100)
    kept = local_path(list_of(table, "lost"))
    shutil.copy(kept, kept.with_suffix(".bak"))
    break_branch(table, "lost")
    plan = site.plan(JOB)
    assert going(plan.table("db.t")) == {"lost"}
    kept.with_suffix(".bak").rename(kept)
    result = site.apply(plan)
    assert (result.status, dict(result.changed)) == ("failed", {"refs": 0})
    assert "lost" in refs(table)


def test_a_list_that_comes_back_between_two_looks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(site.catalog(), "db.t")
    branch(table, "lost", 100)
    path = local_path(list_of(table, "lost"))
    data = path.read_bytes()
    break_branch(table, "lost")
    monkeypatch.setattr(type(site.clock), "sleep", lambda *_: path.write_bytes(data))
    found = site.plan(JOB).table("db.t")
    assert states(found) == {"lost": "unknown"}
    assert not found.changes["refs"]


class TestAbsenceIsNoConsent:
    """Whatever makes everything look gone must leave every branch alone."""

    def test_main_is_gone_too(self, site: Site) -> None:
        table = make_table(site.catalog(), "db.t")
        branch(table, "lost", 100)
        break_branch(table, "lost")
        local_path(list_of(table, "main")).unlink()
        found = site.plan(JOB).table("db.t")
        assert states(found) == {"lost": "unknown"}
        assert "restore the table first" in line(found, "lost")["reason"]

    def test_the_directory_of_lists_is_not_there(self, site: Site, tmp_path: Path) -> None:
        """A table whose lists lie on a disk of their own, which is not mounted."""
        table = make_table(site.catalog(), "db.t")
        branch(table, "lost", 100)
        document = document_of(table)
        there = tmp_path / "mount"
        for snapshot in document["snapshots"]:
            if snapshot["snapshot-id"] == head(table, "lost").snapshot_id:
                snapshot["manifest-list"] = f"file://{there}/snap.avro"
        edit(table, document)
        found = site.plan(JOB).table("db.t")
        assert states(found) == {"lost": "unknown"}
        assert "empty or not there" in line(found, "lost")["reason"]
        there.mkdir()
        (there / "another.avro").write_bytes(b"x")
        assert states(site.plan(JOB).table("db.t")) == {"lost": "broken"}

    @pytest.mark.parametrize("answer", ["403 Forbidden", "503 Slow Down", "timed out"])
    def test_a_store_that_does_not_say_so(self, site: Site, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
        table = make_table(site.catalog(), "db.t")
        branch(table, "lost", 100)
        path = break_branch(table, "lost")
        real = LocalDisk.head

        def silent(self: LocalDisk, key: str) -> object:
            if key.endswith(path.name):
                raise StoreUnavailableError(answer)
            return real(self, key)

        monkeypatch.setattr(LocalDisk, "head", silent)
        found = site.plan(JOB).table("db.t")
        assert states(found) == {"lost": "unknown"}
        assert answer in line(found, "lost")["reason"]

    def test_a_store_that_fails_at_apply(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        table = make_table(site.catalog(), "db.t")
        branch(table, "lost", 100)
        path = break_branch(table, "lost")
        plan = site.plan(JOB)
        real = LocalDisk.head

        def silent(self: LocalDisk, key: str) -> object:
            if key.endswith(path.name):
                raise StoreUnavailableError("503")
            return real(self, key)

        monkeypatch.setattr(LocalDisk, "head", silent)
        assert site.apply(plan).changed == {"refs": 0}
        assert "lost" in refs(table)

    def test_many_at_once_pull_a_brake(self, site: Site) -> None:
        table = make_table(site.catalog(), "db.t")
        for number in range(12):
            branch(table, f"b{number}", 100)
            break_branch(table, f"b{number}")
        plan = site.plan(JOB)
        assert plan.refusal("db.t") == "LW-BRAKE-010"
        assert plan.table("db.t").changes == {"refs": 12}
        with pytest.raises(NothingAppliedError):
            site.apply(plan)
        result = site.warden.apply(plan.path, override_brakes=["branch-share"])
        assert result.changed == {"refs": 12}


class TestBroughtBack:
    def test_a_detached_branch_is_made_again(self, site: Site) -> None:
        table = make_table(site.catalog(), "db.t")
        branch(table, "old", 100)
        table.manage_snapshots().create_branch(
            head(table, "old").snapshot_id, "kept", max_ref_age_ms=10**12, min_snapshots_to_keep=3
        ).commit()
        table.append(rows(50))
        expire_base(site)
        before = document_of(site.catalog().load_table("db.t"))["refs"]
        site.sections["stale_branches"]["remove"] = ["detached"]
        site.close()
        result = site.run(JOB)
        assert result.changed == {"refs": 2}
        back = site.warden.restore(result.run_id)
        assert (back.status, dict(back.changed)) == ("done", {"restored": 2})
        assert document_of(site.catalog().load_table("db.t"))["refs"] == before
        again = site.warden.restore(result.run_id)
        assert (again.status, [failed.code for failed in again.failed]) == ("failed", ["LW-RESTORE-001"] * 2)
        assert "has a ref" in again.failed[0].message

    def test_a_snapshot_that_has_expired_since(self, site: Site) -> None:
        table = make_table(site.catalog(), "db.t")
        branch(table, "lost", 100)
        number = head(table, "lost").snapshot_id
        break_branch(table, "lost")
        result = site.run(JOB)
        table.refresh().maintenance.expire_snapshots().by_id(number).commit()
        back = site.warden.restore(result.run_id)
        assert back.status == "failed"
        assert "has expired since" in back.failed[0].message
        assert refs(table) == {"main"}


@pytest.mark.usefixtures("spark")
def test_a_dead_snapshot_stays_until_somebody_gives_it_up(site: Site) -> None:
    """Its branch goes, its data files do not: no job touches the table until a person has decided, as the how-to says."""
    table = make_table(site.catalog(), "db.t")
    branch(table, "lost", 100)
    dead = head(table, "lost").snapshot_id
    (data,) = {task.file.file_path for task in table.scan(snapshot_id=dead).plan_files()} - {
        task.file.file_path for task in table.scan().plan_files()
    }
    break_branch(table, "lost")
    assert site.run(JOB).changed == {"refs": 1}
    site.later(24 * 30)
    for job in (EXPIRY, ORPHANS):
        refusal = site.plan(job).table("db.t").refusal
        assert refusal is not None
        assert refusal.code == "LW-TABLE-001"
        assert f"snap-{dead}" in refusal.message
        assert "is gone" in refusal.message
        assert "the snapshot can be given up" in refusal.hint, "no roll-back takes a snapshot out of the metadata"
    table.refresh().maintenance.expire_snapshots().by_id(dead).commit()
    site.close()
    assert site.plan(EXPIRY).refusal("db.t") is None
    assert local_path(data) in site.plan(ORPHANS).orphans("db.t")
