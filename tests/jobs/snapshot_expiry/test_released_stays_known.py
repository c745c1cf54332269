"""What an expiry let go stays in the ledger, whoever else fails: unknown, it would be an orphan, past its delay and its
cold copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.formats.iceberg.commit.versions import SqlVersions
from lakewarden.formats.iceberg.expiry.expirer import IcebergExpirer
from lakewarden.jobs.snapshot_expiry import run as expiring
from lakewarden.model.errors import LeaseHeldError, LostRefError
from lakewarden.model.margins import MARGINS
from lakewarden.steps.apply import ending
from lakewarden.wiring import open_warden
from tests.formats.paimon.test_expiry_crashes import Crash, crashing
from tests.jobs.snapshot_expiry.expiry_site import EXPIRY, Site, snapshot_ids
from tests.jobs.test_night_in_doubt import overwritten
from tests.support.lakes import local_path, write_table
from tests.support.ledger import due_files

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site.on_sqlite(tmp_path) as site:
        site.catalog().create_namespace("db")
        yield site


def shared(site: Site) -> dict[str, str]:
    return {"write.data.path": f"file://{site.base}/warehouse/shared"}


def test_of_a_shared_directory_only_one_table_expires(site: Site) -> None:
    """The other one comes first by name, and releases nothing."""
    write_table(site.catalog(), "db.a", partitioned=False, appends=1, properties=shared(site))
    _, old = overwritten(site, "db.b", properties=shared(site))
    plan = site.plan(EXPIRY)
    assert plan.verdict(local_path(old[0])) == "pending"
    assert {row["table"] for row in plan.rows} == {"lake.db.b"}
    site.apply(plan)
    assert local_path(old[0]) in site.pending()


def test_a_neighbour_that_did_not_expire_takes_nothing_back(site: Site) -> None:
    """Files of the shared directory count for the first of its tables, also those that the second let go."""
    table, _ = overwritten(site, "db.a", properties=shared(site))
    _, old = overwritten(site, "db.b", properties=shared(site))
    plan = site.plan(EXPIRY)
    for number, snapshot in enumerate(table.snapshots()[:-1]):
        site.catalog().load_table("db.a").manage_snapshots().create_tag(snapshot.snapshot_id, f"t{number}").commit()
    site.apply(plan)
    assert len(snapshot_ids(site.catalog().load_table("db.a"))) == 3
    assert len(snapshot_ids(site.catalog().load_table("db.b"))) == 1
    assert local_path(old[0]) in site.pending()


def test_a_run_that_does_not_get_the_lease_takes_nothing_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two plans of one night: the second enters the same files while the first is about to let them go."""
    _, old = overwritten(site, "db.a")
    first, second = site.plan(EXPIRY), site.plan(EXPIRY)
    monkeypatch.setattr(expiring, "MARGINS", replace(MARGINS, lease_wait_seconds=0.2))
    carry_out, others = IcebergExpirer.carry_out, list[str]()

    def meanwhile(self: IcebergExpirer, *given: object) -> object:
        other = open_warden(str(site.base / "lakewarden.toml"), clock=site.clock)
        with pytest.raises(LeaseHeldError):
            other.apply(second.path, wait=0)
        others.extend(run["status"] for run in other.runs() if run["plan_id"] == second.plan.plan_id)
        other.close()
        return carry_out(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(IcebergExpirer, "carry_out", meanwhile)
    assert site.apply(first).changed["snapshots"] == 2
    assert others == ["stopped"]
    assert local_path(old[0]) in site.pending()


def test_a_run_that_goes_on_after_the_next_one_takes_nothing_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It died before it began; the next night let the files go, and then the table was renamed."""
    _, old = overwritten(site, "db.a")
    plan = site.plan(EXPIRY)

    def die(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(expiring.Run, "_expire", die)
        with pytest.raises(Crash):
            site.apply(plan)
    site.close()
    site.later(1)
    assert site.run(EXPIRY).changed["snapshots"] == 2
    site.catalog().rename_table("db.a", "db.renamed")
    assert [failed.code for failed in site.apply(plan).failed] == ["LW-PLAN-005"]
    assert local_path(old[0]) in site.pending()


def test_a_run_that_goes_on_still_says_that_a_ref_was_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what its files are held for is not shortened by going on."""
    _, old = overwritten(site, "db.a")
    plan = site.plan(EXPIRY)
    expire = SqlVersions.expire

    def losing(self: SqlVersions, *given: object) -> object:
        expire(self, *given)  # type: ignore[arg-type]
        raise LostRefError("tag late is lost", {"snapshots": 2, "refs": 0})

    with monkeypatch.context() as patched:
        patched.setattr(SqlVersions, "expire", losing)
        crashing(patched, ending, "write_head", after=False, on_call=1)
        with pytest.raises(Crash):
            site.apply(plan)
    site.close()
    site.later(1)
    result = site.apply(plan)
    assert [(failed.uri, failed.code) for failed in result.failed] == [("lake.db.a", "LW-APPLY-007")]
    assert (result.status, result.changed) == ("partial", {"snapshots": 2, "refs": 0})
    assert local_path(old[0]) in site.pending()
    assert "lake.db.a" not in due_files(site.warden._deployment.ledger, site.clock.now() + timedelta(days=29))
