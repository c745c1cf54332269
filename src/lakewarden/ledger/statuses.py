"""The words that open runs are marked with, that steps are named by, and that entries of the journal are told apart by."""

from __future__ import annotations

RUNNING, STOPPED = "running", "stopped"
"""Of a run that is not finished: at work, or ended by something that passes. The same apply goes on with it."""

FAILED = "failed"
"""The step that says what closed a run early."""

WASTED = "written for nothing"
"""The step that says which files were written and could not be committed."""

INTENT, OUTCOME = "intent", "outcome"
"""The entries of the journal: before a batch, and after it."""
