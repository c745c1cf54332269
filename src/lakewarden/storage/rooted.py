"""Directories opened one component at a time below a root, never through a symbolic link."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lakewarden.model.errors import MissingStoreError
from lakewarden.model.uri import FileUri

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KEEP_OPEN = 64


class OpenDirectories:
    """The parent directory of a file as a descriptor. A link anywhere below the root raises OSError."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots: set[str] = set()
        last = None
        for root in sorted(root for root in roots if root.startswith("file://")):
            # Below the outermost root nothing is followed, whatever other root lies in it.
            if last is None or not root.startswith(last):
                self._roots.add(root.removesuffix("/"))
                last = root
        self._open: dict[str, int] = {}

    def __enter__(self) -> OpenDirectories:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def of(self, uri: str) -> tuple[int, str]:
        """The open parent directory and the file's own name."""
        parent, _, name = uri.rpartition("/")
        descriptor = self._open.get(parent)
        if descriptor is None:
            if len(self._open) >= _KEEP_OPEN:
                self._close()
            descriptor = self._descend(parent)
        return descriptor, name

    def _descend(self, place: str) -> int:
        """The directory, opened from the one above it, which stays open for its neighbours."""
        if place in self._open:
            return self._open[place]
        if place in self._roots:
            descriptor = self._root(place)
        else:
            above, slash, name = place.rpartition("/")
            if not slash:
                raise ValueError("a directory outside every root")
            descriptor = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=self._descend(above))
        self._open[place] = descriptor
        return descriptor

    def _root(self, root: str) -> int:
        path = "/" + FileUri.parse(root).key
        try:
            return os.open(path.rstrip("/"), _FLAGS | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise MissingStoreError(f"the root {path} is not there any more; nothing more was deleted") from error

    def _close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
