"""Avro files that were read a moment ago. A manifest never changes, so what was read of it need not be read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from lakewarden.formats.avro import AvroFile

# An entry takes some kilobytes in memory, so these are about a hundred megabytes.
MOST_ENTRIES = 40_000
# What a file takes beside its entries, in entries: its schema is larger than a few of them.
HEADER = 8


class RecentFiles:
    """The newest few, for threads of one process. Their records are shared, and must not be changed."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most, self._entries = most_entries, 0
        self._found: OrderedDict[Hashable, AvroFile] = OrderedDict()
        self._turn = threading.Lock()

    def get(self, key: Hashable) -> AvroFile | None:
        with self._turn:
            if (known := self._found.get(key)) is not None:
                self._found.move_to_end(key)
            return known

    def keep(self, key: Hashable, found: AvroFile) -> None:
        with self._turn:
            if key not in self._found and _weight(found) <= self._most:
                self._found[key] = found
                self._entries += _weight(found)
                while self._entries > self._most:
                    self._entries -= _weight(self._found.popitem(last=False)[1])


def _weight(found: AvroFile) -> int:
    return HEADER + len(found.records)
