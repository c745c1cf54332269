"""Branches of tables behind a REST catalog (Apache's own): the commit asserts what it takes, and is looked at afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.formats.iceberg.commit.rest_versions import RestVersions
from lakewarden.model.errors import PlanOutdatedError
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of
from tests.jobs.stale_branches.branchy import (
    AT_ONCE,
    JOB,
    at_each,
    branch,
    break_branch,
    going,
    head,
    make_table,
    refs,
    rows,
    states,
)
from tests.support.rest import Serve


@pytest.fixture
def site(serve: Serve, tmp_path: Path) -> Iterator[Site]:
    server = serve({"warehouse": f"file://{tmp_path}/warehouse"})
    with Site(tmp_path, {"lake": {"type": "rest", "uri": server.uri}}, sections={"stale_branches": AT_ONCE}) as found:
        yield found


def test_what_is_broken_goes_and_comes_back(site: Site) -> None:
    table = make_table(site.catalog(), "db.t")
    branch(table, "work", 100)
    branch(table, "lost", 200)
    table.append(rows(50))
    break_branch(table, "lost")
    before = document_of(site.catalog().load_table("db.t"))["refs"]
    plan = site.plan(JOB)
    assert states(plan.table("db.t")) == {"work": "diverged", "lost": "broken"}
    result = site.apply(plan)
    assert (result.status, dict(result.changed)) == ("done", {"refs": 1})
    assert refs(table) == {"main", "work"}
    assert site.warden.restore(result.run_id).changed == {"restored": 1}
    assert document_of(site.catalog().load_table("db.t"))["refs"] == before


@pytest.mark.parametrize("moves", [True, False])
def test_a_commit_in_the_last_moment(site: Site, monkeypatch: pytest.MonkeyPatch, moves: bool) -> None:
    """On the branch itself, which is left alone then; or on main, which is no reason to leave the branch."""
    table = make_table(site.catalog(), "db.t")
    branch(table, "lost", 100)
    break_branch(table, "lost")
    plan = site.plan(JOB)
    assert going(plan.table("db.t")) == {"lost"}

    def commit() -> None:
        other = site.catalog().load_table("db.t")
        if not moves:
            other.append(rows(70))
            return
        other.manage_snapshots().remove_branch("lost").commit()
        other.manage_snapshots().create_branch(head(other, "main").snapshot_id, "lost").commit()

    at_each(commit, RestVersions, "_commit", monkeypatch)
    result = site.apply(plan)
    assert refs(table) == ({"main", "lost"} if moves else {"main"})
    assert [failed.code for failed in result.failed] == ([PlanOutdatedError.code] if moves else [])
    assert len(table.refresh().scan().to_arrow()) == (6 if moves else 8)
