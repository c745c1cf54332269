"""Readers and rollbacks have their grace: what a recent state reached stays, however old its files are."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyiceberg.table import Table

from tests.jobs.orphan_cleanup.site import Site, data_files, manifests, metadata
from tests.support.lakes import local_path


def backdate(table: Table, by: timedelta) -> None:
    """Let every commit of the table have happened that much earlier, in every metadata file of it."""
    shift = int(by.total_seconds() * 1000)
    for path in (local_path(table.location()) / "metadata").glob("*.metadata.json"):
        document = json.loads(path.read_text())
        document["last-updated-ms"] -= shift
        for entry in (*document.get("metadata-log", []), *document["snapshots"], *document["snapshot-log"]):
            entry["timestamp-ms"] -= shift
        path.write_text(json.dumps(document))


def overwritten_and_expired(site: Site, name: str, **how: object) -> tuple[Table, set[Path]]:
    """A table whose first rows were deleted and whose first snapshots were expired; what only those reached."""
    table = site.add(name, **how)
    before = {*data_files(table), *manifests(table)}
    table.delete("id >= 0")
    gone = [snapshot.snapshot_id for snapshot in table.metadata.snapshots][:-1]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    table = site.catalog.load_table(name)
    assert len(table.metadata.snapshots) == 1
    reached = {*manifests(table)}
    return table, before - reached


def test_snapshots_expired_within_the_grace_period_still_protect(site: Site) -> None:
    """Same files, same ages; only the instant of the expiry differs. `rotated` has lost the earlier state from its log."""
    _, recent = overwritten_and_expired(site, "e.recent")
    long_ago, dropped = overwritten_and_expired(site, "e.long_ago")
    rotated, kept = overwritten_and_expired(
        site,
        "e.rotated",
        properties={"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "false"},
    )
    assert len(rotated.metadata.metadata_log) == 1
    backdate(long_ago, timedelta(days=20))
    site.old()
    seen = site.plan()
    assert {seen.refusal(f"e.{name}") for name in ("recent", "long_ago", "rotated")} == {None}
    assert not seen.orphans("e.recent") & recent
    assert seen.orphans("e.long_ago") >= dropped
    assert not seen.orphans("e.rotated") & kept


def test_a_reader_s_grace_counts_from_when_its_state_was_replaced(site: Site) -> None:
    """The state was made three weeks ago and expired a minute ago: yesterday's reader still reads it."""
    table = site.add("e.t")
    before = {*data_files(table), *manifests(table)}
    backdate(table, timedelta(days=21))
    table = site.catalog.load_table("e.t")
    table.delete("id >= 0")
    gone = [snapshot.snapshot_id for snapshot in table.metadata.snapshots][:-1]
    site.catalog.load_table("e.t").maintenance.expire_snapshots().by_ids(gone).commit()
    site.old()
    now = int(datetime.now(UTC).timestamp() * 1000)
    log = json.loads(metadata(site.catalog.load_table("e.t")).read_text())["metadata-log"]
    assert now - log[0]["timestamp-ms"] > 20 * 86_400_000
    assert not site.plan().orphans() & before


def test_the_state_that_was_current_at_the_cutoff_protects_though_the_log_has_dropped_it(site: Site) -> None:
    """Made three weeks ago, replaced today by the expiry, and gone from a log of one entry."""
    short = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "false"}
    table = site.add("e.short", properties=short)
    before = {*data_files(table), *manifests(table)}
    table.delete("id >= 0")
    backdate(table, timedelta(days=21))
    table = site.catalog.load_table("e.short")
    gone = [snapshot.snapshot_id for snapshot in table.metadata.snapshots][:-1]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    for value in "xy":
        with site.catalog.load_table("e.short").transaction() as change:
            change.set_properties({"round": value})
    table = site.catalog.load_table("e.short")
    assert len(table.metadata.metadata_log) == 1
    site.old()
    seen = site.plan()
    assert seen.refusal("e.short") is None
    assert not seen.orphans() & before
