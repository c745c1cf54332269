"""The second act, a night: partitions and snapshots that are past their time, cold copies, then the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from demo import check, check_stream
from demo.check import Fingerprint
from demo.lake import CATALOG, DemoLake
from demo.ledger import back_date, pending
from demo.stream import KEPT_SNAPSHOTS, DemoStream
from demo.terminal import Terminal, expect, expect_same

OLD = "shop.customers"
RESTORED = "shop.back"
DROPPING = "shop.orders_v2"
KEPT_DAYS = 365
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
[overrides.compaction]
settle_minutes = 0

[[overrides]]
match = "{CATALOG}.{DROPPING}"
[overrides.partition_expiry]
expiration_hours = {KEPT_DAYS * 24}
timestamp_pattern = "$month-01"
timestamp_formatter = "yyyy-MM-dd"
"""


@dataclass(frozen=True, slots=True)
class Evening:
    """The Paimon table before the night."""

    files: set[Path]
    needed: set[Path]
    rows: dict[str, Fingerprint]


def tell(base: Path, lake: DemoLake, stream: DemoStream | None, terminal: Terminal) -> None:
    """Partitions, manifests, small files, snapshots, cold copies, bytes, and one snapshot back from the cold."""
    old = lake.catalog.load_table(OLD).snapshots()[0].snapshot_id
    before = check.fingerprint(OLD, "old", _rows_at(lake, OLD, old))
    evening = _look(stream) if stream is not None else None

    terminal.title("A night: what is past its time goes from the metadata first")
    on_disk = _files(base)
    terminal.plan_and_apply("partition-expiry", "p2")
    expect(on_disk <= _files(base), "dropping partitions deleted a file")
    _check_months(lake)
    terminal.held("old months and days are dropped by one commit a table; not a file is deleted")

    # Iceberg's own Spark runtime rewrites manifests, and is fetched for this job only.
    if terminal.plan_and_apply("manifest-rewrite", "p3", allowed=(0, FAILED)) == FAILED:
        terminal.say("- Iceberg's Spark runtime could not be fetched, so no manifest was changed")

    _compact(lake, terminal)

    rows = check.fingerprints(lake.catalog, lake.tables)
    files = check.all_files(base / "warehouse")
    terminal.plan_and_apply("snapshot-expiry", "p5")
    released = pending(base)
    of_iceberg = {path for path in released if path.is_relative_to(base / "warehouse")}
    expect(bool(of_iceberg) and released <= _files(base), "expiry deleted bytes")
    if stream is not None and evening is not None:
        gone = evening.needed - check_stream.needed_files(stream)
        expect(released - of_iceberg == gone, "expiry released the wrong files")
    terminal.held(f"old snapshots are gone; the {len(released)} files that only they needed still lie there")

    terminal.plan_and_apply("tier-handoff", "p6")
    # The visibility delay has no switch, so the demo turns its own calendar back, as it did with the files' ages.
    back_date(base)
    terminal.say("A day passes: the demo back-dates its own ledger; on your lake they do wait.")
    terminal.plan_and_apply("physical-deletion", "p7")
    terminal.run("restore", "--from-cold", str(old), "--as", f"{CATALOG}.{RESTORED}")

    deleted = files - check.all_files(base / "warehouse")
    expect_same(deleted, of_iceberg)
    expect(check.fingerprints(lake.catalog, lake.tables) == rows, "a table reads differently than before")
    again = check.fingerprint(OLD, "old", _rows(lake, RESTORED))
    expect(again == before, "the restored snapshot reads differently than before it expired")
    if stream is not None and evening is not None:
        _check_stream(stream, evening, released - of_iceberg)
    terminal.held(
        f"{len(released)} files are gone: the released ones, and nothing else",
        "every branch and tag of every table reads as before (count and hash)",
        f"{CATALOG}.{RESTORED} has the {before.rows} rows that an overwrite took",
    )


def _compact(lake: DemoLake, terminal: Terminal) -> None:
    """Small files of the Iceberg tables become few, and every ref of every table reads as before."""
    rows, files = check.fingerprints(lake.catalog, lake.tables), _data_files(lake)
    terminal.run("plan", "compaction", "--select", f"{CATALOG}.*", "--out", "p4")
    terminal.run("apply", "p4", "--yes")
    expect(check.fingerprints(lake.catalog, lake.tables) == rows, "compaction changed a row")
    fewer = _data_files(lake)
    expect(fewer < files, "compaction left as many files as before")
    terminal.held(f"{files} data files became {fewer}, and every row is there")


def _data_files(lake: DemoLake) -> int:
    """How many data files the newest snapshots of all tables have."""
    tables = (lake.catalog.load_table(name) for name in lake.tables)
    return sum(table.inspect.data_files().num_rows for table in tables)


def _files(base: Path) -> set[Path]:
    return check.all_files(base / "warehouse") | check.all_files(base / "stream")


def _check_months(lake: DemoLake) -> None:
    months = {str(row["month"]) for row in _rows(lake, DROPPING)}
    kept = f"{date.fromordinal(date.today().toordinal() - KEPT_DAYS):%Y-%m}"
    expect(bool(months) and min(months) >= kept, f"{DROPPING} has the months {sorted(months)}, and keeps a year")


def _look(stream: DemoStream) -> Evening:
    return Evening(
        check.all_files(stream.location),
        check_stream.needed_files(stream),
        check_stream.fingerprints(stream, stream.old_days),
    )


def _check_stream(stream: DemoStream, evening: Evening, released: set[Path]) -> None:
    """By pypaimon alone: the tag and the branch read as before, and main does but for the days that were dropped."""
    left = check.all_files(stream.location)
    missing = check_stream.needed_files(stream) - left
    expect(not missing, f"a needed file is gone: {sorted(missing)[:3]}")
    now = check_stream.fingerprints(stream)
    ids = sorted(int(ref.removeprefix("main@")) for ref in now if ref.startswith("main@"))
    expect(len(ids) == KEPT_SNAPSHOTS, f"main has the snapshots {ids}")
    expired = {
        path for path in evening.files if path.match("events/snapshot/snapshot-*") and int(path.name[9:]) < ids[0]
    }
    expect_same(evening.files - left, released | expired)
    # The commit that dropped the days is the only snapshot that was not there before.
    changed = [ref for ref in now if ref in evening.rows and now[ref] != evening.rows[ref]]
    new = sorted(now.keys() - evening.rows.keys())
    expect(not changed and new == [f"main@{ids[-1]}"], f"{changed} read differently than before; new: {new}")
    held = [path for path in left if path.parent.parent.name.removeprefix("day=") in stream.old_days]
    expect(bool(held), "the tag and the branch show days whose files are gone")


def _rows(lake: DemoLake, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = lake.catalog.load_table(name).scan().to_arrow().to_pylist()
    return rows


def _rows_at(lake: DemoLake, name: str, snapshot: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = lake.catalog.load_table(name).scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return rows
