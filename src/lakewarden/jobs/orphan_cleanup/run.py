"""Apply a plan of orphans: the files go that no table needs, and nothing but the journal takes note."""

from __future__ import annotations

from lakewarden.steps.apply.file_run import FileRun


class Run(FileRun):
    """One run of one orphan plan."""
