"""Listing a local directory tree fast: `os.scandir`, one lstat a file, columns as plain lists."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import pyarrow as pa

from lakewarden.storage.store import LISTING_SCHEMA, SPECIAL, SYMLINK, UNLISTABLE, bad_name, shown

ROWS_A_BATCH = 20_000
_REGULAR = stat.S_IFREG
_LINK = stat.S_IFLNK
_AFTER_SLASH = chr(ord("/") + 1)


class _Columns:
    """The rows gathered so far, one list a column: no dict and no datetime a row."""

    def __init__(self) -> None:
        self.key: list[str] = []
        self.size: list[int | None] = []
        self.modified: list[int | None] = []
        self.etag: list[str | None] = []
        self.flag: list[str | None] = []

    def note(self, key: str, flag: str) -> None:
        """A row that says something about a name instead of listing a file."""
        self.key.append(key)
        self.size.append(None)
        self.modified.append(None)
        self.etag.append(None)
        self.flag.append(flag)

    def batch(self) -> pa.RecordBatch:
        return pa.record_batch(
            [
                pa.array(self.key, pa.string()),
                pa.array(self.size, pa.int64()),
                pa.array(self.modified, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
                pa.array(self.etag, pa.string()),
                pa.array(self.flag, pa.string()),
            ],
            schema=LISTING_SCHEMA,
        )


def walk(root: str, *, after: str | None, until: str | None, direct: bool) -> Iterator[pa.RecordBatch]:
    """LISTING_SCHEMA, one row per name under `root` (absolute, ending in a slash), in no order.

    A root that is not there raises FileNotFoundError; a directory below it that cannot be read, or a
    name that cannot be carried, gives an `unlistable` row: what is in it is unknown, not absent.
    """
    columns = _Columns()
    bounded = after is not None or until is not None
    if root != "/" and stat.S_ISLNK(os.lstat(root[:-1]).st_mode):
        columns.note(f"file://{root[:-1]}", SYMLINK)
        yield columns.batch()
        return
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            _scan(directory, columns, pending, after, until, bounded, direct)
        except FileNotFoundError:
            if directory == root:
                raise
            # Removed while we walked: its files are gone, which is what an empty listing says.
        except OSError as error:
            columns.note(f"file://{directory}", f"{UNLISTABLE}{error.strerror or error}")
        if len(columns.key) >= ROWS_A_BATCH:
            yield columns.batch()
            columns = _Columns()
    if columns.key:
        yield columns.batch()


def _scan(
    directory: str,
    columns: _Columns,
    pending: list[str],
    after: str | None,
    until: str | None,
    bounded: bool,
    direct: bool,
) -> None:
    prefix = f"file://{directory}"
    keys, sizes, times, etags, flags = columns.key, columns.size, columns.modified, columns.etag, columns.flag
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if bounded and _outside(f"{directory[1:]}{name}", is_directory, after, until):
                continue
            if not name.isprintable() and (reason := bad_name(name)):
                columns.note(prefix + shown(name), UNLISTABLE + reason)
                continue
            if is_directory:
                if not direct:
                    pending.append(f"{directory}{name}/")
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            mode = stat.S_IFMT(found.st_mode)
            keys.append(prefix + name)
            sizes.append(found.st_size)
            times.append(found.st_mtime_ns // 1000)
            etags.append(f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}")
            flags.append(None if mode == _REGULAR else SYMLINK if mode == _LINK else SPECIAL)


def _outside(key: str, is_directory: bool, after: str | None, until: str | None) -> bool:
    """Whether nothing at or below this key lies in (after, until]."""
    if is_directory:
        return (after is not None and key + _AFTER_SLASH <= after) or (until is not None and key + "/" > until)
    return (after is not None and key <= after) or (until is not None and key > until)
