"""Listing a local directory tree fast: `os.scandir`, columns as plain lists, one lstat a file or only where it is asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakewarden.storage.listed_rows import LISTING_SCHEMA
from lakewarden.storage.store import SPECIAL, SYMLINK, UNLISTABLE, bad_name, shown

ROWS_A_BATCH = 20_000
_REGULAR = stat.S_IFREG
_LINK = stat.S_IFLNK
_LOCAL = "file://"
_AFTER_SLASH = chr(ord("/") + 1)


class Columns:
    """The rows gathered so far, one list a column: no dict and no datetime a row."""

    def __init__(self) -> None:
        self.key: list[str] = []
        self.size: list[int | None] = []
        self.modified: list[int | None] = []
        self.etag: list[str | None] = []
        self.flag: list[str | None] = []
        self.bare: list[str] = []

    def __len__(self) -> int:
        return len(self.key) + len(self.bare)

    def note(self, key: str, flag: str) -> None:
        """A row that says something about a name instead of listing a file."""
        self.key.append(key)
        self.size.append(None)
        self.modified.append(None)
        self.etag.append(None)
        self.flag.append(flag)

    def look(self, key: str, found: os.stat_result) -> None:
        """A file with what the disk says of it."""
        mode = stat.S_IFMT(found.st_mode)
        self.key.append(key)
        self.size.append(found.st_size)
        self.modified.append(found.st_mtime_ns // 1000)
        self.etag.append(f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}")
        self.flag.append(None if mode == _REGULAR else SYMLINK if mode == _LINK else SPECIAL)

    def taken(self) -> pa.RecordBatch:
        """LISTING_SCHEMA of the rows so far, bare names last; they are not kept."""
        rows = self._batch()
        for column in (self.key, self.size, self.modified, self.etag, self.flag, self.bare):
            column.clear()
        return rows

    def _batch(self) -> pa.RecordBatch:
        looked = pa.record_batch(
            [
                pa.array(self.key, pa.string()),
                pa.array(self.size, pa.int64()),
                pa.array(self.modified, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
                pa.array(self.etag, pa.string()),
                pa.array(self.flag, pa.string()),
            ],
            schema=LISTING_SCHEMA,
        )
        if not self.bare:
            return looked
        blank = [pa.nulls(len(self.bare), field.type) for field in list(LISTING_SCHEMA)[1:]]
        names = [pa.array(self.bare, pa.string()), *blank]
        both = [pa.concat_arrays(pair) for pair in zip(looked.columns, names, strict=True)]
        return pa.record_batch(both, schema=LISTING_SCHEMA)


def walk(root: str, *, after: str | None, until: str | None, direct: bool) -> Iterator[pa.RecordBatch]:
    """LISTING_SCHEMA, one row per name under `root` (absolute, ending in a slash), in no order.

    A root that is not there raises FileNotFoundError; a directory below it that cannot be read, or a
    name that cannot be carried, gives an `unlistable` row: what is in it is unknown, not absent.
    """
    columns = Columns()
    for _ in walk_into(columns, root, after=after, until=until, direct=direct):
        yield columns.taken()
    if len(columns):
        yield columns.taken()


def walk_into(
    columns: Columns, root: str, *, after: str | None, until: str | None, direct: bool, bare: bool = False
) -> Iterator[None]:
    """The walk itself, which stops whenever enough rows are gathered to be taken.

    `bare`: ordinary files have their names alone, for whoever asks `look_at` only of those that matter. One file of each
    directory is looked at all the same, by which a directory shows up whose names can be read and whose files cannot.
    """
    if root != "/" and stat.S_ISLNK(os.lstat(root[:-1]).st_mode):
        columns.note(f"file://{root[:-1]}", SYMLINK)
        return
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            _scan(directory, columns, pending, after, until, direct, bare)
        except FileNotFoundError:
            if directory == root:
                raise
            # Removed while we walked: its files are gone, which is what an empty listing says.
        except OSError as error:
            columns.note(f"file://{directory}", f"{UNLISTABLE}{error.strerror or error}")
        if len(columns) >= ROWS_A_BATCH:
            yield


def look_at(keys: Iterable[str]) -> tuple[pa.RecordBatch, list[bool]]:
    """LISTING_SCHEMA of these local files, one row each in their order, and whether each is still there.

    A file that cannot be looked at is an `unlistable` row: whether it may go is unknown.
    """
    columns = Columns()
    there: list[bool] = []
    for key in keys:
        try:
            columns.look(key, os.lstat(key[len(_LOCAL) :]))
            there.append(True)
        except (FileNotFoundError, NotADirectoryError):
            columns.note(key, UNLISTABLE + "gone")
            there.append(False)
        except OSError as error:
            columns.note(key, f"{UNLISTABLE}{error.strerror or error}")
            there.append(True)
    return columns.taken(), there


def _scan(
    directory: str,
    columns: Columns,
    pending: list[str],
    after: str | None,
    until: str | None,
    direct: bool,
    bare: bool,
) -> None:
    prefix = f"{_LOCAL}{directory}"
    bounded = not _inside(directory[1:], after, until)
    looked = not bare
    names_alone = bare and not bounded
    bare_names = columns.bare
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if names_alone and looked and entry.is_file(follow_symlinks=False) and name.isprintable():
                bare_names.append(prefix + name)
                continue
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
            if bare and looked and entry.is_file(follow_symlinks=False):
                bare_names.append(prefix + name)
                continue
            try:
                columns.look(prefix + name, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            looked = True


def _inside(directory: str, after: str | None, until: str | None) -> bool:
    """Whether everything in this directory lies in (after, until]."""
    return (after is None or directory > after) and (until is None or directory[:-1] + _AFTER_SLASH <= until)


def _outside(key: str, is_directory: bool, after: str | None, until: str | None) -> bool:
    """Whether nothing at or below this key lies in (after, until]."""
    if is_directory:
        return (after is not None and key + _AFTER_SLASH <= after) or (until is not None and key + "/" > until)
    return (after is not None and key <= after) or (until is not None and key > until)
