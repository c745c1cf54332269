"""The demo from end to end: build, plan, show, apply, and check that only orphans went."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from demo import check
from demo.lake import DemoLake, build

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


class DemoError(Exception):
    """Something the demo promises did not hold."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-lake"), help="where the lake goes; emptied first")
    base: Path = parser.parse_args().dir.resolve()
    if base.exists() and not (base / "lakewarden.toml").exists() and any(base.iterdir()):
        print(f"{base} is not a demo lake, and is left alone", file=sys.stderr)
        return 64
    began = time.monotonic()
    shutil.rmtree(base, ignore_errors=True)
    try:
        _tell(base)
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    print(f"\n({time.monotonic() - began:.0f} seconds)")
    return 0


def _tell(base: Path) -> None:
    _title("1. A small lake")
    base.mkdir(parents=True)
    config = base / "lakewarden.toml"
    config.write_text(CONFIG.format(base=base), encoding="utf-8")
    lake = build(base)
    before, rows = check.all_files(base / "warehouse"), check.fingerprints(lake.catalog, lake.tables)
    readable = tuple(name for name in lake.tables if name != "finance.invoices")
    live = check.live_files(lake.catalog, readable)
    for one in rows:
        print(f"  {one.table:16} {one.ref:11} {one.rows:5} rows")
    print(f"  {len(before)} files on disk, a month old; {len(lake.planted.orphans)} of them are orphans in tables that")
    print("  may be cleaned: a job that crashed before its commit, and commits that lost their race.")
    print("  shop.orders also holds two new files and a hidden one; the two finance tables must be refused.")

    plan = base / "plan"
    common = ["--config", str(config)]
    _title("2. What would go? (nothing is changed)")
    _run(["plan", "orphans", *common, "--out", str(plan)])
    _title("3. The plan is a document: look at it before you agree")
    _run(["show", str(plan), *common])
    _expect(check.all_files(base / "warehouse") == before, "planning changed the lake")
    tables = json.loads((plan / "plan.json").read_text(encoding="utf-8"))["tables"]
    refused = {table["identifier"].split(".", 1)[1] for table in tables if table["refusal"]}
    _expect(refused == set(lake.refused), f"refused {sorted(refused)}, not {sorted(lake.refused)}")
    _title("4. Do it")
    _run(["apply", str(plan), "--yes", *common])
    _title("5. What happened, and how the fleet is")
    _run(["runs", *common])
    _run(["doctor", *common], allowed=(0, 3, 4))

    _title("6. Checked without Lakewarden")
    gone = before - check.all_files(base / "warehouse")
    _expect(not gone & live, f"a live file was deleted: {sorted(gone & live)[:3]}")
    _expect(gone == set(lake.planted.orphans), _difference(gone, lake))
    _expect(check.fingerprints(lake.catalog, lake.tables) == rows, "a table reads differently than before")
    print(f"  every row of {len(rows)} branches and tags in {len(lake.tables)} tables reads as before (count and hash)")
    print(
        f"  all {len(live)} live files are where they were; {len(gone)} files are gone: the orphans, and nothing else"
    )
    print("  kept on purpose:")
    for reason, count in Counter(lake.planted.kept.values()).items():
        print(f"    {count} {reason}")
    _close(base, plan, config)


def _close(base: Path, plan: Path, config: Path) -> None:
    _title("What to try next")
    here = _short(config)
    print(f"  .venv/bin/lakewarden apply {_short(plan)} --yes --config {here}     # a plan is used once: refused")
    print(f"  .venv/bin/lakewarden plan orphans --config {here}                   # nothing left to do")
    print(f"  .venv/bin/lakewarden policy demo.shop.orders --config {here}        # each value and where it comes from")
    print(f"  .venv/bin/lakewarden tables --config {here} --output json")
    print(f"  point [catalogs.…] in {here} at your own catalog: `plan` and `doctor` only read")
    print("  docs/tutorial.md goes through the same steps on a lake of your own")


def _run(arguments: list[str], allowed: tuple[int, ...] = (0,)) -> None:
    """One real command, shown as a user would type it, its output as it comes."""
    shown = shlex.join([".venv/bin/lakewarden", *(_short(Path(a)) if a.startswith("/") else a for a in arguments)])
    print(f"$ {shown}", flush=True)
    done = subprocess.run([str(Path(sys.executable).parent / "lakewarden"), *arguments], check=False)
    print(flush=True)
    _expect(done.returncode in allowed, f"`{shown}` ended with {done.returncode}")


def _difference(gone: set[Path], lake: DemoLake) -> str:
    orphans = set(lake.planted.orphans)
    missing = json.dumps(sorted(str(path) for path in orphans - gone)[:5], indent=2)
    extra = json.dumps(sorted(str(path) for path in gone - orphans)[:5], indent=2)
    return f"the wrong files went. Orphans still there: {missing}; deleted but no orphan: {extra}"


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemoError(otherwise)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _title(text: str) -> None:
    print(f"\n── {text} " + "─" * max(3, 96 - len(text)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
