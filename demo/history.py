"""The second act: days, snapshots and bytes of the Paimon table that are past their time, each by its own job."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demo import check, check_stream
from demo.stream import IDENTIFIER, KEPT_DAYS, KEPT_SNAPSHOTS, DemoStream
from demo.terminal import expect, expect_same, run, say, title


def tell(base: Path, stream: DemoStream) -> None:
    """Partitions, snapshots, bytes; then the check by pypaimon alone."""
    files, needed = check.all_files(stream.location), check_stream.needed_files(stream)
    shown = check_stream.fingerprints(stream, stream.old_days)

    title(f"7. Days that are past their time ({IDENTIFIER} keeps {KEPT_DAYS} days)")
    _plan_and_apply(base, "partition-expiry")
    expect(not files - check.all_files(stream.location), "dropping partitions deleted a file")
    say(
        "Dropped by one commit, and no file is gone: main shows these days no more, but older snapshots, the tag and",
        "the branch do.",
    )

    title(f"8. Snapshots that are past their time ({IDENTIFIER} keeps {KEPT_SNAPSHOTS}, and all of branch trial)")
    _plan_and_apply(base, "snapshot-expiry")
    released = pending(base)
    expect(released == needed - check_stream.needed_files(stream), "expiry released the wrong files")
    expect(released <= check.all_files(stream.location), "expiry deleted bytes")
    say(
        f"Only snapshot files are gone. The {len(released)} files that nothing else needs are in the ledger as released,",
        "and stay for a day, so that a query on an expired snapshot can end.",
    )

    title("9. A day later: the bytes")
    back_date(base)
    say(
        "(Nobody waits a day for a demo: it has just back-dated these entries in its own ledger. On a lake of yours",
        " they wait as long as visibility_delay_hours says, and a setting below one hour is refused.)",
    )
    _plan_and_apply(base, "physical-deletion")
    _check(stream, files, released, shown)


def _plan_and_apply(base: Path, job: str) -> None:
    config, out = ("--config", str(base / "lakewarden.toml")), str(base / job)
    run("plan", job, "--select", IDENTIFIER, *config, "--out", out)
    run("apply", out, "--yes", *config)


def pending(base: Path) -> set[Path]:
    """What the ledger says that expiry released."""
    with sqlite3.connect(base / "state" / "lakewarden.db") as ledger:
        rows = ledger.execute("SELECT uri FROM lw_pending").fetchall()
    return {Path(uri.removeprefix("file://")) for (uri,) in rows}


def back_date(base: Path) -> None:
    """The visibility delay has no switch, so the demo turns its own calendar back, as it did with the files' ages."""
    then = (datetime.now(UTC) - timedelta(hours=25)).isoformat(timespec="microseconds")
    with sqlite3.connect(base / "state" / "lakewarden.db") as ledger:
        ledger.execute("UPDATE lw_pending SET released_at = ?", (then,))


def _check(stream: DemoStream, files: set[Path], released: set[Path], shown: dict[str, check.Fingerprint]) -> None:
    title("10. Checked without Lakewarden, by pypaimon")
    left = check.all_files(stream.location)
    missing = check_stream.needed_files(stream) - left
    expect(not missing, f"a needed file is gone: {sorted(missing)[:3]}")
    now = check_stream.fingerprints(stream)
    ids = sorted(int(ref.removeprefix("main@")) for ref in now if ref.startswith("main@"))
    expect(len(ids) == KEPT_SNAPSHOTS, f"main has the snapshots {ids}")
    expired = {path for path in files if path.match("events/snapshot/snapshot-*") and int(path.name[9:]) < ids[0]}
    expect_same(files - left, released | expired)
    # The commit that dropped the days is the only snapshot that was not there before.
    changed = [ref for ref in now if ref in shown and now[ref] != shown[ref]]
    new = sorted(now.keys() - shown.keys())
    expect(not changed and new == [f"main@{ids[-1]}"], f"{changed} read differently than before; new: {new}")
    held = [path for path in left if path.parent.parent.name.removeprefix("day=") in stream.old_days]
    say(
        "tag launch and branch trial read as before (count and hash), and main does but for the days that were dropped",
        f"{len(expired)} snapshot files and {len(released)} files that only they needed are gone, and nothing else",
        f"kept on purpose: {len(held)} data files of the dropped days, which launch and trial still show",
    )
