"""A process killed at any point of a batch leaves the batch open, with every file of it known."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from lakewarden.ledger.database import Ledger
from lakewarden.model.plan import Tally
from tests.ledger.samples import files, outcomes, started

CHILD = """
import os, signal, sys
from sqlalchemy import Engine, event
from lakewarden.ledger.database import open_ledger
from lakewarden.model.clock import SystemClock
from tests.ledger.samples import files, outcomes

url, moment = sys.argv[1:]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
ledger = open_ledger(url, SystemClock())
ledger.journal.intent("run-1", 0, files(50))
ledger.journal.outcomes("run-1", 0, outcomes(files(50)))
if moment == "in the intent":
    event.listen(Engine, "commit", die)
ledger.journal.intent("run-1", 1, files(50, batch=1))
if moment == "after the intent":
    die()
if moment == "before the entry":
    event.listen(Engine, "before_cursor_execute", lambda c, cursor, sql, *_: "INSERT INTO lw_journal" in sql and die())
if moment == "before the commit":
    event.listen(Engine, "commit", die)
ledger.journal.outcomes("run-1", 1, outcomes(files(50, batch=1)))
die()
"""


@pytest.mark.parametrize(
    ("moment", "still_open"),
    [
        ("in the intent", 0),
        ("after the intent", 1),
        ("before the entry", 1),
        ("before the commit", 1),
        ("after all", 0),
    ],
)
def test_kill_9(ledger: Ledger, ledger_url: str, moment: str, still_open: int) -> None:
    started(ledger)
    child = subprocess.run([sys.executable, "-c", CHILD, ledger_url, moment], check=False, timeout=60)
    assert child.returncode == -signal.SIGKILL
    expected = [(1, files(50, batch=1))] if still_open else []
    assert [(number, list(batch)) for number, batch in ledger.journal.open_batches("run-1")] == expected
    closed = 2 if moment == "after all" else 1
    assert ledger.journal.done("run-1")["deleted"].files == 50 * closed
    assert ledger.journal.verify("run-1") == []
    if still_open:
        ledger.journal.outcomes("run-1", 1, outcomes(files(50, batch=1), "absent"))
        assert ledger.journal.done("run-1")["absent"] == Tally(50, sum(range(1000, 1050)))
        assert ledger.journal.verify("run-1") == []
