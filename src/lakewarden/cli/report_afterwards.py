"""`run --report FILE.html`: the report page, written when the jobs are over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakewarden.cli.options import Shared
from lakewarden.cli.progress import reporting
from lakewarden.cli.screen import Screen, show_error, size
from lakewarden.model.errors import Exit, LakewardenError

if TYPE_CHECKING:
    from lakewarden.warden import Warden


def check_report(out: str) -> None:
    """Raise UsageError for a place that no page can be written to, before any job has run."""
    from lakewarden.reports.page.write import NO_REPORT
    from lakewarden.reports.whole_file import check_writable

    check_writable(Path(out), NO_REPORT, "report.html")


def write_afterwards(warden: Warden, out: str, shared: Shared, code: int) -> int:
    """Write the page about the whole fleet; the exit code of the jobs, unless they are done and the page is not.

    A page that cannot be written is told on stderr: what the jobs did is on stdout already, as one document perhaps.
    """
    try:
        with reporting(shared) as progress:
            written = warden.report(out, progress=progress)
    except LakewardenError as error:
        show_error(error.code, error.message, error.hint, as_json=False)
        return error.exit_code if code == Exit.DONE else code
    if not shared.as_json:
        Screen().line(f"report: {written.path}   {size(written.bytes)}")
    return code
