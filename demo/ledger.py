"""The demo's own look at Lakewarden's ledger, and its hand on the calendar: nobody waits a day for a demo."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path


def pending(base: Path) -> set[Path]:
    """What the ledger says that expiry released."""
    with sqlite3.connect(base / "state" / "lakewarden.db") as ledger:
        rows = ledger.execute("SELECT uri FROM lw_pending").fetchall()
    return {Path(uri.removeprefix("file://")) for (uri,) in rows}


def back_date(base: Path) -> None:
    """Let the released files have waited a day. A setting below one hour would be refused."""
    then = (datetime.now(UTC) - timedelta(hours=25)).isoformat(timespec="microseconds")
    with sqlite3.connect(base / "state" / "lakewarden.db") as ledger:
        ledger.execute("UPDATE lw_pending SET released_at = ?", (then,))
