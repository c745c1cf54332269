"""Manifests that were read a moment ago, found by what their list says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakewarden.formats.avro import AvroFile
from lakewarden.formats.iceberg.manifests.files import count_of, live_count, read_manifest
from lakewarden.formats.recent_files import MOST_ENTRIES, RecentFiles
from lakewarden.model.ports import Files


class OpenedManifests:
    """The newest few, for threads of one process. Their records are shared, and must not be changed."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._recent = RecentFiles(most_entries)

    def read(self, files: Files, row: Mapping[str, Any]) -> AvroFile:
        """The manifest that a row of a list names. Raises IncompleteManifestError."""
        # With what its list says of it: a list that says otherwise is compared with the file itself.
        key = (row["manifest_path"], row["manifest_length"], live_count(row), count_of(row, "deleted_files_count"))
        found = self._recent.get(key)
        if found is None:
            self._recent.keep(key, found := read_manifest(files, row))
        return found
