"""Directories of a local disk that hold no file at any depth. Object stores have no directories, so none is empty."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from lakewarden.model.ports import Stat
from lakewarden.model.uri import FileUri


def empty_directories(root: str, pattern: str) -> Iterator[Stat]:
    """Directories below a root whose path below it matches, with nothing but such directories in them; deepest first.

    The tag is the directory's own number: its modification time changes when a directory in it goes. One that cannot be
    read, or holds a name nobody can carry, is not empty.
    """
    place = FileUri.parse(root)
    if place.scheme == "file":
        yield from _below(f"/{place.key}".rstrip("/") + "/", "", re.compile(pattern))[1]


def directory_tag(found: os.stat_result) -> str:
    return f"directory-{found.st_ino:x}"


def _below(base: str, relative: str, pattern: re.Pattern[str]) -> tuple[bool, list[Stat]]:
    """Whether this directory holds no file at any depth, and the empty ones at or below it."""
    found: list[Stat] = []
    empty = True
    try:
        with os.scandir(base + relative) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    empty = False
                    continue
                inner, below = _below(base, f"{relative}{entry.name}/", pattern)
                empty = empty and inner
                found += below
        mine = os.lstat(base + relative.removesuffix("/")) if relative else None
    except OSError:
        return False, found
    if not empty or mine is None or not pattern.search(relative.removesuffix("/")):
        return False, found
    modified = datetime.fromtimestamp(mine.st_mtime, UTC)
    return True, [*found, Stat(f"file://{base}{relative}", 0, modified, directory_tag(mine))]
