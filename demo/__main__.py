"""The demo from end to end: build, plan, show, apply, and check that only what nobody needs went."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from demo import check, check_stream, history, night, stream
from demo.lake import DemoLake, build
from demo.stream import DemoStream
from demo.terminal import DemoError, expect, expect_same, run, say, short, title

CONFIG = """\
[worker]
id = "demo"

[state]
location = "file://{base}/state"

[spark]
master = "local[2]"

[catalogs.demo]
format = "iceberg"
properties = {{ type = "sql", uri = "sqlite:///{base}/catalog.db", warehouse = "file://{base}/warehouse" }}

[orphan_cleanup]
grace_period_hours = 168
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-lake"), help="where the lake goes; emptied first")
    base: Path = parser.parse_args().dir.resolve()
    if base.exists() and not (base / "lakewarden.toml").exists() and any(base.iterdir()):
        print(f"{base} is not a demo lake, and is left alone", file=sys.stderr)
        return 64
    began = time.monotonic()
    shutil.rmtree(base, ignore_errors=True)
    # pypaimon has no release for the newest Pythons; the Iceberg half needs nothing of it.
    with_paimon = find_spec("pypaimon") is not None
    try:
        lake, events = _tell(base, with_paimon)
        if events is not None:
            history.tell(base, events)
        night.tell(base, lake)
        _close(base, events is not None)
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    print(f"\n({time.monotonic() - began:.0f} seconds)")
    return 0


def _tell(base: Path, with_paimon: bool) -> tuple[DemoLake, DemoStream | None]:
    """The first act: orphans of every table of both catalogs, in one plan."""
    title("1. A small lake")
    base.mkdir(parents=True)
    config = base / "lakewarden.toml"
    config.write_text(
        (CONFIG + night.CONFIG + (stream.CONFIG if with_paimon else "")).format(base=base), encoding="utf-8"
    )
    lake = build(base)
    events = stream.build(base) if with_paimon else None
    roots = [base / "warehouse", base / "stream"]
    before, rows = _files(roots), check.fingerprints(lake.catalog, lake.tables)
    readable = tuple(name for name in lake.tables if name != "finance.invoices")
    live = check.live_files(lake.catalog, readable)
    orphans, kept = set(lake.planted.orphans), dict(lake.planted.kept)
    for one in rows:
        say(f"{'demo.' + one.table:22} {one.ref:14} {one.rows:5} rows   Iceberg")
    shown: dict[str, check.Fingerprint] = {}
    if events is not None:
        shown = check_stream.fingerprints(events)
        live |= check_stream.needed_files(events)
        orphans |= set(events.planted.orphans)
        kept |= events.planted.kept
        for ref, printed in shown.items():
            if "@" not in ref:
                say(f"{printed.table:22} {ref:14} {printed.rows:5} rows   Paimon")
    else:
        say("(pypaimon has no release for this Python, so the demo goes without its Paimon table)")
    say(
        f"{len(before)} files on disk, a month old; {len(orphans)} of them are orphans in tables that",
        "may be cleaned: a job that crashed before its commit, and commits that lost their race.",
        "Some tables also hold new files and files of others; the two finance tables must be refused.",
    )

    plan = base / "plan"
    common = ("--config", str(config))
    title("2. What would go? (nothing is changed)")
    run("plan", "orphans", *common, "--out", str(plan))
    title("3. The plan is a document: look at it before you agree")
    run("show", str(plan), *common)
    expect(_files(roots) == before, "planning changed the lake")
    tables = json.loads((plan / "plan.json").read_text(encoding="utf-8"))["tables"]
    refused = {table["identifier"].split(".", 1)[1] for table in tables if table["refusal"]}
    expect(refused == set(lake.refused), f"refused {sorted(refused)}, not {sorted(lake.refused)}")
    title("4. Do it")
    run("apply", str(plan), "--yes", *common)
    title("5. What happened, and how the fleet is")
    run("runs", *common)
    run("doctor", *common, allowed=(0, 3, 4))

    title("6. Checked without Lakewarden")
    gone = before - _files(roots)
    expect(not gone & live, f"a live file was deleted: {sorted(gone & live)[:3]}")
    expect_same(gone, orphans)
    expect(check.fingerprints(lake.catalog, lake.tables) == rows, "a table reads differently than before")
    expect(events is None or check_stream.fingerprints(events) == shown, "the Paimon table reads differently")
    refs = len(rows) + len(shown)
    say(f"every row of {refs} branches, tags and snapshots in {len(tables)} tables reads as before (count and hash)")
    say(f"all {len(live)} live files are where they were; {len(gone)} files are gone: the orphans, and nothing else")
    say("kept on purpose:")
    for reason, count in Counter(kept.values()).items():
        say(f"  {count} {reason}")
    return lake, events


def _files(roots: list[Path]) -> set[Path]:
    """Files of tables: Lakewarden notes beside a table, not in it, whose it is."""
    found = (path for root in roots for path in check.all_files(root))
    return {path for path in found if ".lakewarden" not in path.parts}


def _close(base: Path, with_paimon: bool) -> None:
    title("What to try next")
    here = short(base / "lakewarden.toml")
    say(
        f".venv/bin/lakewarden apply {short(base / 'plan')} --yes --config {here}     # a plan is used once: refused",
        f".venv/bin/lakewarden plan orphans --config {here}                   # nothing left to do",
        f".venv/bin/lakewarden policy demo.shop.orders --config {here}        # each value and where it comes from",
        f".venv/bin/lakewarden tables --config {here} --output json",
    )
    if with_paimon:
        say(f".venv/bin/lakewarden audit verify --config {here}                    # the journal of every deletion")
    say(
        f"point [catalogs.…] in {here} at your own catalogs: `plan` and `doctor` only read",
        "docs/tutorial.md goes through the same steps on a lake of your own; docs/how-to/iceberg-night.md has Iceberg's night and docs/how-to/paimon.md Paimon's day",
    )


if __name__ == "__main__":
    sys.exit(main())
