"""What was read a moment ago takes bounded memory, whatever the files are like."""

from __future__ import annotations

from lakewarden.formats.avro import AvroFile
from lakewarden.formats.recent_files import HEADER, RecentFiles


def file_of(records: int) -> AvroFile:
    return AvroFile({}, "null", tuple({"n": number} for number in range(records)))


def test_the_newest_are_kept_and_those_that_were_asked_for() -> None:
    recent = RecentFiles(3 * (HEADER + 10))
    for name in "abc":
        recent.keep(name, file_of(10))
    assert recent.get("a") is not None
    recent.keep("d", file_of(10))
    assert [name for name in "abcd" if recent.get(name) is not None] == ["a", "c", "d"]


def test_files_of_few_entries_are_not_kept_without_bound() -> None:
    """A stream's tables have manifests of one entry each, and every one has a schema of its own in memory."""
    recent = RecentFiles(1000)
    for number in range(1000):
        recent.keep(number, file_of(0))
    assert sum(recent.get(number) is not None for number in range(1000)) == 1000 // HEADER


def test_a_file_that_alone_is_too_large_drives_nothing_out() -> None:
    recent = RecentFiles(100)
    recent.keep("small", file_of(1))
    recent.keep("large", file_of(101))
    assert recent.get("large") is None
    assert recent.get("small") is not None
