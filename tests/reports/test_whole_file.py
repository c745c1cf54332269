"""A page that cannot be written: in words, not as Python shows an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.model.errors import UsageError
from lakewarden.reports.whole_file import write_whole


def test_why_a_file_cannot_be_written_is_told_in_words() -> None:
    with pytest.raises(UsageError) as found:
        write_whole(Path("/proc/x.html"), b"page", "report was")
    assert found.value.message == "/proc/x.html cannot be written (No such file or directory); no report was written"
