"""What nobody can tell: a borrower that cannot be read, a table of another catalog, an address in another spelling, a
state database from a backup. The files stay, and the plan says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from lakewarden.model.errors import NothingAppliedError, StateBehindError
from lakewarden.model.run import RunStatus
from tests.jobs.snapshot_expiry.expiry_site import DELETION, EXPIRY, HOUR_MS, ORPHANS, Site, backdate, rows_at
from tests.jobs.test_night_in_doubt import OTHER_ROWS, now_ms, overwritten
from tests.jobs.test_night_in_doubt import site as site
from tests.support.lakes import local_path, write_table

pytestmark = pytest.mark.usefixtures("spark")


def test_a_table_that_changed_and_is_damaged_since_holds_all_deletions(site: Site) -> None:
    _, old = overwritten(site, "db.a")
    borrower = write_table(site.catalog(), "db.b", partitioned=False, appends=0)
    site.plan(ORPHANS)
    borrower.add_files(old)
    site.run(EXPIRY, "lake.db.a")
    assert local_path(old[0]) in site.pending()
    manifest = local_path(borrower.current_snapshot().manifests(borrower.io)[0].manifest_path)
    hidden = manifest.rename(manifest.with_name("hidden"))
    site.later(30)

    seen = site.plan(DELETION)
    assert seen.refusal("db.a") == "LW-BRAKE-007"
    assert "lake.db.b changed since" in seen.message("db.a")
    assert seen.plan.brakes == {"damaged-table": ("lake.db.a",)}
    with pytest.raises(NothingAppliedError):
        site.apply(seen)

    hidden.rename(manifest)
    assert site.run(DELETION).status is RunStatus.DONE
    assert local_path(old[0]).exists()
    assert not site.pending() - {local_path(old[0])}


def test_a_borrower_that_moves_and_cannot_be_read_after_the_plan_stops_every_root(site: Site) -> None:
    _, old = overwritten(site, "db.a")
    write_table(site.catalog(), "db.b", partitioned=False, appends=1)
    site.plan(ORPHANS)
    site.run(EXPIRY, "lake.db.a")
    site.later(30)
    seen = site.plan(DELETION)
    assert seen.refusal("db.a") is None
    borrower = site.catalog().load_table("db.b")
    borrower.add_files(old)
    for manifest in borrower.current_snapshot().manifests(borrower.io):
        local_path(manifest.manifest_path).unlink()
    site.apply(seen)
    assert local_path(old[0]).exists()


@pytest.mark.parametrize("step", ["//", "/./"])
def test_a_borrowed_file_under_another_spelling_stays(site: Site, step: str) -> None:
    _, old = overwritten(site, "db.a")
    path = local_path(old[0])
    borrower = write_table(site.catalog(), "db.b", partitioned=False, appends=0)
    borrower.add_files([f"file://{path.parent}{step}{path.name}"])
    site.run(EXPIRY, "lake.db.a")
    site.later(30)
    assert site.run(DELETION).status is RunStatus.DONE
    assert rows_at(site.catalog().load_table("db.b"))


def test_beside_a_table_that_nobody_ever_read_the_others_go_on(site: Site) -> None:
    """It could not be read in the first plan that tried, and has not changed since."""
    _, old = overwritten(site, "db.a")
    strange = write_table(site.catalog(), "db.b", partitioned=False, appends=1)
    local_path(strange.current_snapshot().manifests(strange.io)[0].manifest_path).unlink()
    assert site.plan(ORPHANS).refusal("db.b") == "LW-TABLE-001"
    site.run(EXPIRY, "lake.db.a")
    site.later(30)
    assert site.run(DELETION).status is RunStatus.DONE
    assert not local_path(old[0]).exists()


def test_a_directory_that_holds_a_table_of_an_unknown_catalog_is_left_alone(site: Site) -> None:
    """By expiry, which lists it, and by physical deletion of what was released before, which believes the newest plan."""
    _, old = overwritten(site, "db.a")
    site.run(EXPIRY)
    assert local_path(old[0]) in site.pending()
    where = f"file://{site.base}/warehouse"
    other = load_catalog("other", type="sql", uri=f"sqlite:///{site.base}/other.db", warehouse=where)
    other.create_namespace("db")
    write_table(other, "db.clone", partitioned=False, appends=0, location=f"{where}/db/a/clone").add_files(old)
    table = site.catalog().load_table("db.a")
    table.overwrite(OTHER_ROWS)
    backdate(table, now_ms(), 10 * HOUR_MS)
    assert site.plan(EXPIRY).refusal("db.a") == "LW-ROOT-002"
    site.later(30)
    seen = site.plan(DELETION)
    assert seen.refusal("db.a") == "LW-ROOT-002"
    with pytest.raises(NothingAppliedError):
        site.apply(seen)


def test_a_state_database_from_a_backup_plans_nothing(site: Site) -> None:
    overwritten(site, "db.a")
    site.plan(ORPHANS)
    site.close()
    database = site.base / "state" / "lakewarden.db"
    backup = database.read_bytes()
    run = site.run(EXPIRY)
    site.close()
    _bring_back(database, backup)

    for job in (ORPHANS, EXPIRY, DELETION):
        with pytest.raises(StateBehindError, match=run.run_id):
            site.plan(job)
    assert site.warden.doctor()["forgotten_runs"] == [run.run_id]
    for mark in (site.base / "state/journal-heads").glob(f"{run.run_id}.*"):
        mark.rename(site.base / mark.name)
    site.plan(ORPHANS)


def _bring_back(database: Path, backup: bytes) -> None:
    for beside in database.parent.glob(f"{database.name}-*"):
        os.unlink(beside)
    database.write_bytes(backup)
