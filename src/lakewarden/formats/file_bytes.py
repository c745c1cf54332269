"""The bytes of one file: as many as its table says, whole or range by range."""

from __future__ import annotations

from io import RawIOBase
from typing import Protocol

from lakewarden.model.errors import IncompleteManifestError


class Ranged(Protocol):
    def get_range(self, uri: str, start: int, length: int) -> bytes: ...


def whole(files: Ranged, uri: str, size: int) -> bytes:
    """A file's bytes, as many as its manifest says: readers find its footer by that. Raises IncompleteManifestError."""
    found = files.get_range(uri, 0, size)
    if len(found) != size:
        raise too_short(uri, len(found), size)
    return found


def too_short(uri: str, found: int, size: int) -> IncompleteManifestError:
    return IncompleteManifestError(f"{uri} has {found} bytes and should have {size}; nothing was rewritten")


class Ranges(RawIOBase):
    """A large file read piece by piece."""

    def __init__(self, files: Ranged, uri: str, size: int) -> None:
        self._files, self._uri, self._size, self._at = files, uri, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = self._size - self._at if size < 0 else min(size, self._size - self._at)
        found = self._files.get_range(self._uri, self._at, length) if length > 0 else b""
        self._at += len(found)
        return found
