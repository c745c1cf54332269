"""What must not go although a plan might say so: borrowed files, wrong clocks, moved names, tables known twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from lakewarden.model.run import RunStatus
from lakewarden.pipeline.compare import compare as comparing
from tests.jobs.snapshot_expiry.expiry_site import (
    DELETION,
    EXPIRY,
    HOUR_MS,
    ORPHANS,
    Site,
    backdate,
    document_of,
    edit,
    rows_at,
)
from tests.support.lakes import local_path, write_table

pytestmark = pytest.mark.usefixtures("spark")

OTHER_ROWS = pa.table({"id": pa.array([100, 101], pa.int64()), "part": ["z", "z"]})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site.on_sqlite(tmp_path) as site:
        site.catalog().create_namespace("db")
        yield site


def overwritten(site: Site, name: str, **how: object) -> tuple[Table, list[str]]:
    """A table whose first data file only its first snapshot needs, ten hours old."""
    table = write_table(site.catalog(), name, partitioned=False, appends=1, **how)  # type: ignore[arg-type]
    old = [task.file.file_path for task in table.scan().plan_files()]
    table.overwrite(OTHER_ROWS)
    backdate(table, now_ms(), 10 * HOUR_MS)
    return site.catalog().load_table(name), old


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def test_a_borrowed_file_stays_while_its_borrower_cannot_be_read(site: Site) -> None:
    """Both tables need the file when the orphan plan remembers who has files where; then only the borrower does."""
    _, old = overwritten(site, "db.a")
    borrower = write_table(site.catalog(), "db.b", partitioned=False, appends=0)
    borrower.add_files(old)
    site.plan(ORPHANS)
    site.run(EXPIRY, "lake.db.a")
    assert local_path(old[0]) in site.pending()
    metadata = local_path(borrower.metadata_location)
    hidden = metadata.rename(metadata.with_name("hidden"))
    site.later(30)

    seen = site.plan(DELETION)

    assert seen.refusal("db.a") == "LW-ROOT-001"
    assert seen.plan.totals()["changes"].get("files", 0) == 0
    hidden.rename(metadata)
    assert site.run(DELETION).status is RunStatus.DONE
    assert rows_at(site.catalog().load_table("db.b"))


@pytest.mark.parametrize("job", [EXPIRY, DELETION, "partition-expiry"])
def test_a_wrong_clock_changes_nothing(site: Site, job: str) -> None:
    site.sections["partition_expiry"] = {"expiration_hours": 1, "strategy": "update-time"}
    write_table(site.catalog(), "db.a")
    site.clock.by = timedelta(days=3650)
    assert site.plan(job).refusal("db.a") == "LW-STORE-002"


def test_two_words_for_the_current_snapshot_are_refused(site: Site) -> None:
    table, _ = overwritten(site, "db.a")
    document = document_of(table)
    document["refs"]["main"]["snapshot-id"] = document["snapshots"][0]["snapshot-id"]
    edit(table, document)
    seen = site.plan(EXPIRY)
    assert seen.refusal("db.a") == "LW-TABLE-003"
    assert "current-snapshot-id" in str(seen.table("db.a").refusal)


def test_a_table_under_two_names_is_not_committed_to(site: Site) -> None:
    table, _ = overwritten(site, "db.a")
    site.catalog().register_table("db.twin", table.metadata_location)
    seen = site.plan(EXPIRY)
    assert {seen.refusal("db.a"), seen.refusal("db.twin")} == {"LW-ROOT-003"}


def test_tables_that_share_a_directory_take_turns(site: Site) -> None:
    shared = {"write.data.path": f"file://{site.base}/warehouse/shared"}
    names = [f"db.t{number}" for number in range(4)]
    for name in names:
        overwritten(site, name, properties=shared)
    result = site.run(EXPIRY)
    assert (result.status, result.failed) == (RunStatus.DONE, ())
    assert result.kept == {"pending": len(site.pending())}


def test_in_a_shared_directory_the_strictest_delay_holds(site: Site) -> None:
    shared = {"write.data.path": f"file://{site.base}/warehouse/shared"}
    for name in ("db.a", "db.b"):
        overwritten(site, name, properties=shared)
    site.policies["lake.db.b"] = {"physical_deletion": {"visibility_delay_hours": 100}}
    site.run(EXPIRY)
    data = {path for path in site.pending() if path.is_relative_to(site.base / "warehouse" / "shared")}
    assert len(data) == 2
    site.later(50)
    site.run(DELETION)
    assert data <= site.pending()
    assert site.plan(DELETION, "lake.db.a").plan.totals()["changes"] == {"files": 0}
    site.later(60)
    assert site.run(DELETION).status is RunStatus.DONE
    assert not site.pending()


def test_released_files_follow_a_table_that_was_renamed(site: Site) -> None:
    """And a new table under the old name is not asked about them, nor stops anybody."""
    overwritten(site, "db.a")
    overwritten(site, "db.z")
    site.run(EXPIRY)
    released = site.pending()
    site.catalog().rename_table("db.a", "db.a2")
    write_table(site.catalog(), "db.a", location=f"file://{site.base}/warehouse/db/another")
    result = site.delete_released()
    assert (result.status, result.deleted.files) == (RunStatus.DONE, len(released))
    assert not site.pending()


@pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])
def test_a_file_that_was_needed_again_waits_anew(site: Site, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    table, old = overwritten(site, "db.a")
    site.run(EXPIRY)
    write_table(site.catalog(), "db.b", partitioned=False, appends=0).add_files(old)
    site.later(30)
    site.run(DELETION)
    assert site.pending() == {local_path(old[0])}
    site.catalog().drop_table("db.b")
    assert not site.plan(DELETION).plan.totals()["changes"].get("files"), "readers of the second table have their delay"
    site.later(30)
    site.delete_released()
    assert not local_path(old[0]).exists()
    assert rows_at(table)


def test_what_our_own_runs_let_go_is_no_sign_of_a_fault(site: Site) -> None:
    """Most files of the table go by an expiry and a deletion of ours: the plan after them is not stopped for it."""
    table = write_table(site.catalog(), "db.a", partitioned=False, appends=12)
    table.overwrite(OTHER_ROWS)
    backdate(table, now_ms(), 10 * HOUR_MS)
    before = site.plan(ORPHANS).table("db.a").verdicts["live"].files
    site.run(EXPIRY)
    site.delete_released()
    after = site.plan(ORPHANS)
    assert after.refusal("db.a") is None
    assert after.table("db.a").verdicts["live"].files < before / 2
