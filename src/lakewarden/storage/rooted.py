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
        self._roots = [root for root in roots if root.startswith("file://")]
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
            descriptor = self._open[parent] = self._descend(f"{parent}/")
        return descriptor, name

    def _descend(self, parent: str) -> int:
        root = next(root for root in self._roots if parent.startswith(root))
        path = "/" + FileUri.parse(root).key
        try:
            current = os.open(path.rstrip("/"), _FLAGS | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise MissingStoreError(f"the root {path} is not there any more; nothing more was deleted") from error
        for part in parent[len(root) :].split("/")[:-1]:
            try:
                below = os.open(part, _FLAGS | os.O_NOFOLLOW, dir_fd=current)
            finally:
                os.close(current)
            current = below
        return current

    def _close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
