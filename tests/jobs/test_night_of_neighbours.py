"""Tables that share what they need: clones with one manifest, names for one table, borrowers that are left alone."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyiceberg.table import Table

from lakewarden.model.errors import NothingAppliedError
from lakewarden.model.run import RunStatus
from tests.jobs.snapshot_expiry.expiry_site import (
    DELETION,
    EXPIRY,
    HOUR_MS,
    ORPHANS,
    Site,
    backdate,
    document_of,
    rows_at,
)
from tests.jobs.test_night_in_doubt import OTHER_ROWS, now_ms, overwritten
from tests.jobs.test_night_in_doubt import site as site
from tests.support.lakes import local_path, write_table

pytestmark = pytest.mark.usefixtures("spark")

UNTOUCHED = {"gc.enabled": "false"}


def cloned(site: Site, table: Table, name: str) -> Table:
    """Another table over the same snapshots and manifests: no file is copied but the metadata."""
    place = site.base / "warehouse" / name.replace(".", "/")
    document = document_of(table) | {
        "table-uuid": str(uuid.uuid4()),
        "location": f"file://{place}",
        "metadata-log": [],
    }
    metadata = place / "metadata" / "00000-clone.metadata.json"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(json.dumps(document))
    return site.catalog().register_table(name, f"file://{metadata}")


@contextmanager
def out_of_reach(path: Path) -> Iterator[None]:
    hidden = path.rename(path.with_name("hidden"))
    yield
    hidden.rename(path)


def test_a_manifest_of_two_tables_that_cannot_be_read_refuses_both(site: Site) -> None:
    table, _ = overwritten(site, "db.a")
    cloned(site, table, "db.b")
    with out_of_reach(local_path(table.current_snapshot().manifests(table.io)[0].manifest_path)):
        seen = site.plan(EXPIRY)
    assert {name: seen.refusal(name) for name in ("db.a", "db.b")} == {"db.a": "LW-TABLE-001", "db.b": "LW-TABLE-001"}


def test_released_and_needed_again_by_a_manifest_that_cannot_be_read(site: Site) -> None:
    """The table is brought back to where it was before its expiry; what it needs then is named by that manifest alone."""
    table, old = overwritten(site, "db.a")
    first = local_path(table.snapshots()[0].manifests(table.io)[0].manifest_path)
    cloned(site, table, "db.b")
    site.run(EXPIRY, "lake.db.a")
    assert local_path(old[0]) in site.pending()
    site.catalog().drop_table("db.a")
    site.catalog().register_table("db.a", table.metadata_location)
    site.later(30)
    with out_of_reach(first), pytest.raises(NothingAppliedError):
        site.apply(site.plan(DELETION))
    assert rows_at(site.catalog().load_table("db.a"), table.snapshots()[0].snapshot_id)


@pytest.mark.parametrize("job", [DELETION, ORPHANS])
def test_a_table_that_is_left_alone_takes_a_file_between_plan_and_apply(site: Site, job: str) -> None:
    table, old = overwritten(site, "db.a")
    write_table(site.catalog(), "db.b", partitioned=False, appends=1, properties=UNTOUCHED)
    if job == DELETION:
        site.run(EXPIRY, "lake.db.a")
        site.later(30)
        wanted = local_path(old[0])
    else:
        wanted = local_path(next(iter(table.scan().plan_files())).file.file_path).with_name("lost.parquet")
        shutil.copy(local_path(old[0]), wanted)
        os.utime(wanted, (1e9, 1e9))
    seen = site.plan(job, "lake.db.a")
    assert wanted in {local_path(row["uri"]) for row in seen.rows if row["verdict"] in ("orphan", "pending")}

    site.catalog().load_table("db.b").add_files([f"file://{wanted}"])
    site.apply(seen)

    assert wanted.exists()
    assert rows_at(site.catalog().load_table("db.b"))


def test_a_table_with_two_names_needs_its_files_under_both(site: Site) -> None:
    """Its files are counted under one of them; the other is refused for its twin, not for needing nothing."""
    overwritten(site, "db.m")
    site.run(EXPIRY, "lake.db.m")
    site.catalog().register_table("db.a_twin", site.catalog().load_table("db.m").metadata_location)
    site.later(30)
    seen = site.plan(DELETION)
    assert {seen.refusal("db.m"), seen.refusal("db.a_twin")} == {None}
    assert seen.plan.totals()["changes"]["files"] > 0


def test_lists_of_the_only_table_that_expires_are_cut(site: Site) -> None:
    table, _ = overwritten(site, "db.a")
    write_table(site.catalog(), "db.healthy")
    for snapshot in table.snapshots():
        path = local_path(snapshot.manifest_list)
        path.write_bytes(path.read_bytes()[:-10])
    seen = site.plan(EXPIRY)
    assert (seen.refusal("db.a"), seen.refusal("db.healthy")) == ("LW-TABLE-002", None)


def test_only_tables_without_a_manifest_are_left(site: Site) -> None:
    """The last table with rows was emptied: no snapshot that stays has a manifest, and what it released is due."""
    table = write_table(site.catalog(), "db.a", partitioned=False, appends=1)
    table.delete("id >= 0")
    table.append(OTHER_ROWS.slice(0, 0))
    backdate(table, now_ms(), 10 * HOUR_MS)
    assert site.run(EXPIRY).changed["snapshots"] == len(table.snapshots()) - 1
    site.later(30)
    deletion = site.run(DELETION)
    assert (deletion.status, deletion.failed) == (RunStatus.DONE, ())
    assert deletion.deleted.files > 0
