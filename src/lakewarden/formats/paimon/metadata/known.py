"""Tables as they were last read: a plan opens the files of each table once, however many of its steps ask for it.

What is remembered is known by the fingerprint of a listing: every metadata file with its size and its tag or time. A
table is taken from here only for somebody who has that fingerprint, from a listing made just now or from the pointer that
the table was loaded at, so it is never an older table than the one asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from lakewarden.formats.paimon.metadata.listing import BranchFiles, fingerprint, list_metadata
from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.metadata.table import PaimonTable
from lakewarden.model.ports import Files

MOST_FILES = 50_000  # snapshot, tag and changelog files of all tables together, about 2 KB of memory each


class KnownTables:
    """The tables that were read last, up to so many files; the one asked for longest ago goes first."""

    def __init__(self, files: Files, most_files: int = MOST_FILES) -> None:
        self._files = files
        self._most_files = most_files
        self._tables: OrderedDict[str, PaimonTable] = OrderedDict()
        self._count = 0
        self._turn = Lock()

    def now(self, location: str, listed: tuple[BranchFiles, ...] | None = None) -> PaimonTable:
        """The table as a listing shows it that is made now, or was made just now (`listed`). Raises what reading raises."""
        branches = listed if listed is not None else list_metadata(location, self._files)
        return self._known(location, fingerprint(branches)) or self._read(location, branches)

    def at(self, metadata_location: str) -> PaimonTable:
        """The table at a pointer that it was loaded at; as it is now if that is forgotten. Raises what reading raises."""
        location, _, mark = metadata_location.rpartition("#")
        return self._known(location, mark) or self._read(location, None)

    def _known(self, location: str, mark: str) -> PaimonTable | None:
        with self._turn:
            found = self._tables.get(location)
            if found is None or found.fingerprint != mark:
                return None
            self._tables.move_to_end(location)
            return found

    def _read(self, location: str, listed: tuple[BranchFiles, ...] | None) -> PaimonTable:
        table = read_table(location, self._files, listed=listed)
        with self._turn:
            if (old := self._tables.pop(location, None)) is not None:
                self._count -= _weight(old)
            # A branch without snapshots may be one that lost them all, which only its hints tell, and no fingerprint
            # has those: such a table is read every time.
            if all(branch.snapshots for branch in table.branches):
                self._tables[location] = table
                self._count += _weight(table)
            while self._count > self._most_files:
                self._count -= _weight(self._tables.popitem(last=False)[1])
        return table


def _weight(table: PaimonTable) -> int:
    return 1 + sum(len(b.snapshots) + len(b.tags) + len(b.changelogs) for b in table.branches)
