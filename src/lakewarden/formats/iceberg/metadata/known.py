"""Metadata files as they were last read: a plan parses each table's document once, however many of its steps ask for it.

A document of a table with many snapshots takes longer to parse than to fetch. Bytes are always fetched anew where a
table is loaded; only what they say is remembered, and only as long as the bytes are the same.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

from lakewarden.formats.iceberg.metadata.document import parse
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.ports import Files

MOST_BYTES = 32 << 20  # of the files; parsed, they take several times as much
# A table that is committed to all day makes versions that nobody asks for again: a run's few are enough.
MOST_OF_A_TABLE = 4


@dataclass(frozen=True)
class Version:
    """A metadata file and what it holds."""

    location: str
    raw: bytes
    document: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """What identifies the bytes, where the name alone does not: a `v3.metadata.json` may come again."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def table(self) -> str:
        """Whose version it is; a table of the first format may have no uuid."""
        return str(self.document.get("table-uuid") or self.location)


def read_version(files: Files, location: str) -> Version:
    """The version at that address. Raises UnreadableMetadataError."""
    raw = _fetched(files, location)
    return Version(location, raw, parse(raw, location))


class KnownVersions:
    """The versions that were read last, a few of each table and up to so many bytes; the one asked for longest ago goes first."""

    def __init__(self, files: Files, most_bytes: int = MOST_BYTES) -> None:
        self._files = files
        self._most_bytes = most_bytes
        self._versions: OrderedDict[str, Version] = OrderedDict()
        self._of_table: dict[str, dict[str, None]] = {}  # addresses, in the order in which they were read
        self._bytes = 0
        self._turn = Lock()

    def fresh(self, location: str) -> Version:
        """The version at that address as it is now. Raises UnreadableMetadataError."""
        raw = _fetched(self._files, location)
        known = self._known(location)
        # A name such as v3.metadata.json may come again with other bytes, when a table is dropped and made anew.
        if known is not None and known.raw == raw:
            return known
        version = Version(location, raw, parse(raw, location))
        self._remember(version)
        return version

    def loaded(self, location: str) -> Version:
        """The version as it was when its table was loaded; read now if that is forgotten. Raises UnreadableMetadataError."""
        return self._known(location) or self.fresh(location)

    def anew(self, location: str) -> Version:
        """The version at that address, fetched and parsed whatever is remembered. Raises UnreadableMetadataError."""
        return read_version(self._files, location)

    def _known(self, location: str) -> Version | None:
        with self._turn:
            found = self._versions.get(location)
            if found is not None:
                self._versions.move_to_end(location)
            return found

    def _remember(self, version: Version) -> None:
        with self._turn:
            self._forget(version.location)
            self._versions[version.location] = version
            self._bytes += len(version.raw)
            mine = self._of_table.setdefault(version.table, {})
            mine[version.location] = None
            if len(mine) > MOST_OF_A_TABLE:
                self._forget(next(iter(mine)))
            while self._bytes > self._most_bytes:
                self._forget(next(iter(self._versions)))

    def _forget(self, location: str) -> None:
        if (gone := self._versions.pop(location, None)) is None:
            return
        self._bytes -= len(gone.raw)
        others = self._of_table[gone.table]
        del others[location]
        if not others:
            del self._of_table[gone.table]


def _fetched(files: Files, location: str) -> bytes:
    try:
        return files.get(location)
    except (FileNotFoundError, ValueError) as error:
        raise UnreadableMetadataError(
            f"metadata file {location} cannot be read ({error}); nothing was touched"
        ) from error
