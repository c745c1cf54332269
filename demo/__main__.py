"""The demo from end to end: build a lake, clean it, let a night pass, and check that only what nobody needs went."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from demo import audit, branches, cleanup, gateway, lineage, log, night
from demo.setup import set_up
from demo.terminal import DemoError, Terminal, short

CONFIG = """
[orphan_cleanup]
enabled = true
grace_period_hours = 168

[snapshot_expiry]
enabled = true

[physical_deletion]
enabled = true
"""

NEXT = (
    ("forecast --select 'demo.*'", "what other retentions would release"),
    ("report --out report.html", "the fleet on one page"),
    ("plan all", "what a night would do now, job by job"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-lake"), help="where the lake goes; emptied first")
    base: Path = parser.parse_args().dir.resolve()
    if base.exists() and not (base / "lakewarden.toml").exists() and any(base.iterdir()):
        print(f"{base} is not a demo lake, and is left alone", file=sys.stderr)
        return 64
    began = time.monotonic()
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    terminal = Terminal(base)
    try:
        _tell(base, terminal)
        log.check(terminal.log)
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    _close(base, terminal, time.monotonic() - began)
    return 0


def _tell(base: Path, terminal: Terminal) -> None:
    terminal.title(f"A small lake in {short(base)}/; all that commands say: {short(terminal.log)}")
    lake, events = set_up(base, CONFIG + night.CONFIG)
    cleanup.tell(base, lake, events, terminal)
    made = audit.archive(lake, terminal)
    night.tell(base, lake, events, terminal)
    audit.ask(lake, terminal, made)
    branches.tell(lake, terminal)
    lineage.tell(base, lake, terminal)
    gateway.tell(base, lake, terminal)


def _close(base: Path, terminal: Terminal, seconds: float) -> None:
    terminal.title(f"{seconds:.0f} seconds. To try next, in {short(base)}/ with ../.venv/bin on your PATH")
    for command, what in NEXT:
        terminal.say(f"{'lakewarden ' + command:38} {what}")
    terminal.say(
        f"Point [catalogs.…] in {short(base)}/lakewarden.toml at your own: `plan`, `doctor`",
        "and `config check` change no table. docs/tutorial.md goes on from here.",
    )


if __name__ == "__main__":
    sys.exit(main())
