"""The third act: a night of the Iceberg tables. Snapshots expire, their data goes to a cold place, then the bytes go."""

from __future__ import annotations

from pathlib import Path

from demo import check
from demo.history import back_date, pending
from demo.lake import CATALOG, DemoLake
from demo.terminal import expect, expect_same, run, say, title

OLD = "shop.customers"
RESTORED = "shop.customers_before"
DROPPING = "shop.orders_v2"
FAILED = 1
CONFIG = f"""
[[overrides]]
match = "{CATALOG}.*"
[overrides.snapshot_expiry]
retain_hours = 0
[overrides.tier_handoff]
destination = "file://{{base}}/cold"
[overrides.physical_deletion]
require_cold_copy = true
[overrides.manifest_rewrite]
min_manifests = 5

[[overrides]]
match = "{CATALOG}.{DROPPING}"
[overrides.partition_expiry]
expiration_hours = {365 * 24}
timestamp_pattern = "$month-01"
timestamp_formatter = "yyyy-MM-dd"
"""


def tell(base: Path, lake: DemoLake) -> None:
    """Partitions, snapshots, cold copies, bytes, and one snapshot back from the cold."""
    config = ("--config", str(base / "lakewarden.toml"))
    old = lake.catalog.load_table(OLD).snapshots()[0].snapshot_id
    before = check.fingerprint(OLD, "old", _rows_at(lake, OLD, old))

    title(f"11. Months that are past their time ({CATALOG}.{DROPPING} keeps a year)")
    _plan_and_apply(base, "partition-expiry", f"{CATALOG}.{DROPPING}")
    expect(not _rows(lake, DROPPING), "a month of 2024 is still there")
    say("Dropped by one commit of metadata; the snapshot before it still shows them.")

    title("12. Manifests that a query for one partition opens for nothing")
    _plan_and_apply(base, "manifest-rewrite", f"{CATALOG}.web.*", allowed=(0, FAILED))
    say("(Iceberg's own Spark runtime writes them, and is fetched for this job only. Without it nothing is changed.)")

    rows = check.fingerprints(lake.catalog, lake.tables)
    files = check.all_files(base / "warehouse")
    title("13. Snapshots that are past their time (these tables keep the newest, and what branches and tags name)")
    _plan_and_apply(base, "snapshot-expiry", f"{CATALOG}.*")
    released = {path for path in pending(base) if path.is_relative_to(base / "warehouse")}
    expect(bool(released) and released <= check.all_files(base / "warehouse"), "expiry deleted bytes")
    say(f"Metadata only: {len(released)} files that nothing needs any more are in the ledger, and still there.")

    title("14. To the cold place, where they open as tables of their own")
    _plan_and_apply(base, "tier-handoff", f"{CATALOG}.*")

    title("15. A day later: the bytes, each only if its cold copy is verified")
    back_date(base)
    _plan_and_apply(base, "physical-deletion", f"{CATALOG}.*")

    title("16. One snapshot back from the cold")
    run("restore", "--from-cold", str(old), "--as", f"{CATALOG}.{RESTORED}", *config)

    title("17. Checked without Lakewarden, by PyIceberg")
    left = check.all_files(base / "warehouse")
    gone = files - left
    expect_same(gone, released)
    expect(check.fingerprints(lake.catalog, lake.tables) == rows, "a table reads differently than before")
    again = check.fingerprint(OLD, "old", _rows(lake, RESTORED))
    expect(again == before, "the restored snapshot reads differently than before it expired")
    say(
        f"every branch and tag of {len(lake.tables)} tables reads as before (count and hash)",
        f"{len(gone)} files are gone: the released ones, and nothing else",
        f"{CATALOG}.{RESTORED} has the {before.rows} rows that {CATALOG}.{OLD} had before it was overwritten",
    )


def _plan_and_apply(base: Path, job: str, select: str, allowed: tuple[int, ...] = (0,)) -> None:
    config, out = ("--config", str(base / "lakewarden.toml")), str(base / f"night-{job}")
    run("plan", job, "--select", select, *config, "--out", out)
    run("apply", out, "--yes", *config, allowed=allowed)


def _rows(lake: DemoLake, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = lake.catalog.load_table(name).scan().to_arrow().to_pylist()
    return rows


def _rows_at(lake: DemoLake, name: str, snapshot: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = lake.catalog.load_table(name).scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return rows
