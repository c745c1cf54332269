"""Manifests that were read a moment ago. A manifest never changes, so what was read of it need not be read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from lakewarden.formats.avro import AvroFile
from lakewarden.formats.iceberg.manifests.files import count_of, live_count, read_manifest
from lakewarden.model.ports import Files

# An entry takes some kilobytes in memory, so these are about a hundred megabytes.
MOST_ENTRIES = 40_000


class OpenedManifests:
    """The newest few, for threads of one process. Their records are shared, and must not be changed."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most, self._entries = most_entries, 0
        self._found: OrderedDict[tuple[Any, ...], AvroFile] = OrderedDict()
        self._turn = threading.Lock()

    def read(self, files: Files, row: Mapping[str, Any]) -> AvroFile:
        """The manifest that a row of a list names. Raises IncompleteManifestError."""
        # With what its list says of it: a list that says otherwise is compared with the file itself.
        key = (row["manifest_path"], row["manifest_length"], live_count(row), count_of(row, "deleted_files_count"))
        with self._turn:
            if (known := self._found.get(key)) is not None:
                self._found.move_to_end(key)
                return known
        found = read_manifest(files, row)
        with self._turn:
            if key not in self._found and len(found.records) <= self._most:
                self._found[key] = found
                self._entries += len(found.records)
                while self._entries > self._most:
                    self._entries -= len(self._found.popitem(last=False)[1].records)
        return found
