"""What keeps a branch that the policy names: its name, its writers, its age, and that it is not said to be inactive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.model.branches import protecting
from lakewarden.model.errors import ConfigError
from tests.formats.paimon.site import Site as PaimonSite
from tests.formats.paimon.tables import COLUMNS, Lake
from tests.jobs.snapshot_expiry.expiry_site import HOUR_MS, Site, backdate, document_of, edit
from tests.jobs.stale_branches.branchy import (
    JOB,
    branch,
    break_branch,
    going,
    line,
    make_table,
    refs,
    rows,
    site_of,
    states,
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_of(tmp_path) as found:
        yield found


def kept(site: Site, name: str = "lost") -> str:
    found = site.plan(JOB).table("db.t")
    assert not found.changes["refs"]
    return str(line(found, name)["kept"])


def broken(site: Site) -> None:
    table = make_table(site.catalog(), "db.t")
    branch(table, "lost", 100)
    break_branch(table, "lost")


def test_what_a_pattern_protects(site: Site) -> None:
    broken(site)
    site.sections["stale_branches"]["protect"] = ["lo*"]
    assert kept(site) == "protected by 'lo*'"


@pytest.mark.parametrize(
    ("name", "pattern", "stays"),
    [
        ("etl[1]", "etl[1]", True),
        ("etl1", "etl[1]", True),
        ("q[!a]", "q[!a]", True),
        ("team/a.b", "team/*", True),
        ("pr\u00fcf", "pru\u0308*", True),
        ("Main", "main", False),
    ],
)
def test_a_name_that_looks_like_a_pattern_protects_itself(name: str, pattern: str, stays: bool) -> None:
    assert protecting([pattern], name) == (pattern if stays else None)


def test_a_live_writer(site: Site) -> None:
    broken(site)
    with site.warden.heartbeat("lake.db.t"):
        assert kept(site) == "a writer is at work on the table"


def test_a_writer_that_comes_between_plan_and_apply(site: Site) -> None:
    broken(site)
    plan = site.plan(JOB)
    assert going(plan.table("db.t")) == {"lost"}
    with site.warden.heartbeat("lake.db.t"):
        result = site.apply(plan)
    assert result.changed == {"refs": 0}
    assert "a writer is at work" in result.failed[0].message
    assert "lost" in refs(site.catalog().load_table("db.t"))


class TestAge:
    def test_a_young_commit(self, site: Site) -> None:
        broken(site)
        site.sections["stale_branches"]["min_age_hours"] = 24
        assert kept(site) == "its newest commit is younger than 24 h"

    def test_an_old_branch_by_the_tables_own_log(self, site: Site) -> None:
        """The metadata file that was current a day ago has the branch as it is now."""
        broken(site)
        site.sections["stale_branches"]["min_age_hours"] = 24
        site.later(25)
        assert going(site.plan(JOB).table("db.t")) == {"lost"}
        site.catalog().load_table("db.t").append(rows(70))
        assert going(site.plan(JOB).table("db.t")) == {"lost"}

    def test_a_new_branch_at_an_old_snapshot(self, site: Site) -> None:
        """Somebody rescues an old snapshot: the branch looks old, and the table's log says that it was made just now."""
        broken(site)
        backdate(site.catalog().load_table("db.t"), int(site.clock.now().timestamp() * 1000) - 48 * HOUR_MS)
        site.sections["stale_branches"]["min_age_hours"] = 24
        assert kept(site) == "nothing shows that it has been there for 24 h"

    def test_a_writer_whose_clock_is_behind(self, site: Site) -> None:
        """The version with the branch says that it is three days old, and comes after one of this hour."""
        broken(site)
        table = site.catalog().load_table("db.t")
        old_ms = int(site.clock.now().timestamp() * 1000) - 72 * HOUR_MS
        document = document_of(table)
        document["last-updated-ms"] = old_ms
        for snapshot in document["snapshots"]:
            snapshot["timestamp-ms"] = old_ms
        edit(table, document)
        site.sections["stale_branches"]["min_age_hours"] = 24
        assert kept(site) == "nothing shows that it has been there for 24 h"

    def test_an_earlier_plan_has_seen_it(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        from lakewarden.formats.iceberg.branches.ref_keeper import RefKeeper

        monkeypatch.setattr(RefKeeper, "unchanged_since", lambda *_: None)
        broken(site)
        site.sections["stale_branches"]["min_age_hours"] = 24
        site.plan(JOB)
        site.later(25)
        assert going(site.plan(JOB).table("db.t")) == {"lost"}

    def test_nothing_shows_it(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        from lakewarden.formats.iceberg.branches.ref_keeper import RefKeeper

        monkeypatch.setattr(RefKeeper, "unchanged_since", lambda *_: None)
        broken(site)
        site.sections["stale_branches"]["min_age_hours"] = 24
        site.later(25)
        assert kept(site) == "nothing shows that it has been there for 24 h"


def test_inactive_branches_go_only_where_somebody_says_what_that_is(site: Site) -> None:
    table = make_table(site.catalog(), "db.t")
    branch(table, "quiet", 100)
    branch(table, "level")
    table.append(rows(50))
    site.later(24 * 40)
    assert states(site.plan(JOB).table("db.t")) == {"quiet": "diverged"}
    site.sections["stale_branches"]["inactive_days"] = 30
    site.close()
    found = site.plan(JOB).table("db.t")
    assert states(found) == {"quiet": "inactive", "level": "inactive"}
    assert not going(found)
    site.sections["stale_branches"]["remove"] = ["inactive"]
    site.close()
    assert going(site.plan(JOB).table("db.t")) == {"quiet", "level"}


@pytest.mark.parametrize("committed_ms", [0, -5])
def test_a_commit_that_does_not_say_when_is_not_a_hundred_years_old(site: Site, committed_ms: int) -> None:
    table = make_table(site.catalog(), "db.t")
    branch(table, "work", 100)
    document = document_of(table)
    document["snapshots"][-1]["timestamp-ms"] = committed_ms
    edit(table, document)
    site.sections["stale_branches"] |= {"remove": ["broken", "inactive"], "inactive_days": 30}
    site.close()
    assert states(site.plan(JOB).table("db.t")) == {}
    break_branch(table.refresh(), "work")
    site.sections["stale_branches"]["min_age_hours"] = 24
    site.close()
    site.later(48)
    kept = line(site.plan(JOB).table("db.t"), "work")
    assert (kept["state"], kept["goes"]) == ("broken", False)
    assert kept["kept"] == "nothing says when its newest commit was made"


def test_inactive_without_days_is_a_mistake(site: Site) -> None:
    site.sections["stale_branches"]["remove"] = ["inactive"]
    with pytest.raises(ConfigError, match="inactive_days"):
        site.warden  # noqa: B018


def test_an_override_may_protect_one_table(site: Site) -> None:
    broken(site)
    site.policies = {"lake.db.*": {"stale_branches": {"protect": ["*"]}}}
    assert "protected" in kept(site)


def test_tags_and_main_are_never_named(site: Site) -> None:
    table = make_table(site.catalog(), "db.t")
    table.manage_snapshots().create_tag(table.history()[0].snapshot_id, "release").commit()
    break_branch(table, "release")
    site.sections["stale_branches"] |= {"remove": ["broken", "detached", "inactive"], "inactive_days": 1}
    site.later(24 * 40)
    found = site.plan(JOB).table("db.t")
    assert (found.detail["seen"], found.changes) == ({}, {"refs": 0})


class TestPaimon:
    """Judged and reported; whoever removes a branch of Paimon deletes files."""

    @pytest.fixture
    def paimon(self, tmp_path: Path) -> Iterator[PaimonSite]:
        with PaimonSite(tmp_path, sections={"stale_branches": {"min_age_hours": 0}}) as found:
            table = Lake(tmp_path / "lake").create("t")
            table.write("2024-01-01", "2024-01-02")
            table.opened.create_tag("t1", 1)
            table.opened.branch_manager().create_branch("work", "t1")
            table.write("2024-02-01", branch="work")
            self.table = table
            yield found

    def test_states(self, paimon: PaimonSite) -> None:
        found = paimon.plan(JOB).plan.tables[0]
        assert states(found) == {"work": "diverged"}

    def test_a_list_that_is_gone(self, paimon: PaimonSite) -> None:
        [path] = [
            self.table.path
            / "manifest"
            / self.table.json("branch/branch-work/snapshot/snapshot-2")["deltaManifestList"]
        ]
        path.unlink()
        found = paimon.plan(JOB).plan.tables[0]
        assert states(found) == {"work": "broken"}
        assert "sys.delete_branch" in line(found, "work")["kept"]
        assert not found.changes["refs"]

    def test_snapshot_files_that_are_gone(self, paimon: PaimonSite) -> None:
        for path in (self.table.path / "branch/branch-work/snapshot").glob("snapshot-*"):
            path.unlink()
        found = paimon.plan(JOB).plan.tables[0]
        assert found.refusal is not None
        assert found.refusal.code == "LW-TABLE-001"
        assert "branch-work" in found.refusal.message

    def test_why_its_removal_is_left_to_whoever_knows_the_writers(self, paimon: PaimonSite) -> None:
        """Paimon's own removal has nothing to compare and swap: a commit that was under way brings half a branch back."""
        builder = self.table.lake.catalog.get_table(f"{self.table.name}$branch_work").new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(pa.Table.from_pylist([{"id": 1, "dt": "2024-03-01", "v": "x"}], schema=COLUMNS))
        written = writer.prepare_commit()
        self.table.opened.branch_manager().drop_branch("work")
        commit.commit(written)
        assert (self.table.path / "branch/branch-work/snapshot/snapshot-1").exists()
        assert not (self.table.path / "branch/branch-work/schema").exists()
        found = paimon.plan(JOB).plan.tables[0]
        assert found.refusal is not None
        assert "branch-work/schema/ has no schema file" in found.refusal.message
