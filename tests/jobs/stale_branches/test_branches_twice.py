"""Two at one branch: two runs at the same moment, a run that died and one that came after, a person who brings it back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden.formats.iceberg.branches.ref_keeper import RefKeeper
from lakewarden.ledger.runs import Runs
from lakewarden.model.run import RunResult
from tests.jobs.snapshot_expiry.expiry_site import HOUR_MS, Site, document_of, edit
from tests.jobs.stale_branches.branchy import (
    JOB,
    branch,
    break_branch,
    going,
    head,
    line,
    make_table,
    refs,
    site_of,
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_of(tmp_path) as found:
        yield found


def broken(site: Site, *names: str) -> Any:
    table = make_table(site.catalog(), "db.t")
    for name in names or ("lost",):
        branch(table, name, 100)
        break_branch(table, name)
    return table


def make_older(table: Any, hours: int) -> None:
    """Let everything that the table's metadata tells of have happened so much earlier."""
    document = document_of(table)
    for entry in [*document["metadata-log"], *document["snapshot-log"], *document["snapshots"]]:
        entry["timestamp-ms"] -= hours * HOUR_MS
    document["last-updated-ms"] -= hours * HOUR_MS
    edit(table, document)


def test_two_plans_applied_at_the_same_moment(site: Site) -> None:
    """Each branch is counted by one of the two runs, and each run brings back what it took and no more."""
    table = broken(site, "lost", "gone")
    plans = [site.plan(JOB), site.plan(JOB)]
    wardens = [site.another(), site.another()]
    results: list[RunResult] = []
    together = threading.Barrier(2)

    def work(place: int) -> None:
        together.wait(10)
        results.append(wardens[place].apply(plans[place].path))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert refs(table) == {"main"}
    assert sorted((result.status, result.changed["refs"]) for result in results) == [("done", 2), ("failed", 0)]
    loser = next(result for result in results if result.status == "failed")
    assert {failed.message for failed in loser.failed} == {"somebody else removed it since the plan"}


class TestBroughtBack:
    """Whoever brings a branch back wants it: it is as young as that, whatever its snapshot is."""

    @pytest.fixture
    def old(self, site: Site) -> Any:
        table = broken(site)
        site.sections["stale_branches"]["min_age_hours"] = 24
        site.later(25)
        return table

    def test_by_restore(self, site: Site, old: Any) -> None:
        result = site.run(JOB)
        assert refs(old) == {"main"}
        site.later(2)
        assert site.warden.restore(result.run_id).changed == {"restored": 1}
        site.later(12)
        found = site.plan(JOB).table("db.t")
        assert not going(found)
        assert "for 24 h" in line(found, "lost")["kept"]
        site.later(13)
        assert going(site.plan(JOB).table("db.t")) == {"lost"}

    def test_by_its_owner_at_the_same_snapshot(self, site: Site) -> None:
        """The table's log has it: a version in between does not have the branch."""
        table = broken(site)
        site.sections["stale_branches"]["min_age_hours"] = 24
        make_older(table.refresh(), 25)
        assert going(site.plan(JOB).table("db.t")) == {"lost"}
        number = head(table.refresh(), "lost").snapshot_id
        table.manage_snapshots().remove_branch("lost").commit()
        table.refresh().manage_snapshots().create_branch(number, "lost").commit()
        found = site.plan(JOB).table("db.t")
        assert not going(found)
        assert "for 24 h" in line(found, "lost")["kept"]


def test_a_run_that_died_after_its_commit_and_whose_plan_expired(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it removed is on its record, though nobody may go on with it."""
    table = broken(site)
    plan = site.plan(JOB)
    real = Runs.step

    def dies(self: Runs, run_id: str, name: str, detail: Any) -> None:
        if name == "removed":
            raise KeyboardInterrupt
        real(self, run_id, name, detail)

    with monkeypatch.context() as patched:
        patched.setattr(Runs, "step", dies)
        with pytest.raises(KeyboardInterrupt):
            site.apply(plan)
    assert refs(table) == {"main"}
    site.close()
    site.later(25)
    result = site.apply(plan)
    assert (result.status, dict(result.changed), result.failed) == ("done", {"refs": 1}, ())
    assert site.warden.restore(result.run_id).changed == {"restored": 1}


def test_a_branch_that_comes_back_while_it_is_removed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is made, and somebody makes the branch anew before it is looked at: theirs stays, and is not ours."""
    table = broken(site)
    plan = site.plan(JOB)
    real = RefKeeper.remove
    made: list[bool] = []

    def removed(self: RefKeeper, *given: Any) -> Any:
        done = real(self, *given)
        if not made:
            made.append(True)
            other = site.catalog().load_table("db.t")
            other.manage_snapshots().create_branch(head(other, "main").snapshot_id, "lost").commit()
        return done

    monkeypatch.setattr(RefKeeper, "remove", removed)
    result = site.apply(plan)
    assert refs(table) == {"main", "lost"}
    back = site.warden.restore(result.run_id)
    assert back.status == "failed"
    assert "has a ref lost again" in back.failed[0].message
    assert head(table.refresh(), "lost").snapshot_id == head(table, "main").snapshot_id
