"""Local disk, on `os` alone: no link is followed, every name is taken as it is stored."""

from __future__ import annotations

import builtins
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Directory, Shard, Stat
from lakewarden.model.uri import FileUri
from lakewarden.storage.scratch import drop_temporary, temporary_name
from lakewarden.storage.store import Ambiguous, Children, bad_name, shown, unavailable, unsafe_key

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.storage.walk import Columns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PIECE = 8 << 20
# So many bytes of a large file are worth starting the disk for.
_STRETCH = 16 << 20
_LEAST_AT_ONCE, _MOST_AT_ONCE = 4 << 10, 1 << 30


def etag_of(found: os.stat_result) -> str:
    """Inode, modification time and size: it changes whenever the file is written or replaced."""
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def modified_of(found: os.stat_result) -> datetime:
    """The modification time, exact to the microsecond (a float would round it)."""
    return _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)


class LocalDisk:
    """The file system below `mount`. Keys are absolute paths without their leading slash."""

    scheme = "file"
    bucket = ""

    def __init__(self, mount: str = "/") -> None:
        self._mount = mount

    def __repr__(self) -> str:
        return f"LocalDisk({self._mount!r})"

    def get(self, key: str) -> bytes:
        with self._open(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._open(key) as file:
            file.seek(start)
            return file.read(length)

    def read_into(self, key: str, room: memoryview) -> int:
        with self._open(key) as file:
            return file.read_into(room)

    def get_many(self, keys: Sequence[str]) -> list[bytes | Exception]:
        found: list[bytes | Exception] = []
        for key in keys:
            try:
                found.append(self.get(key))
            except (FileNotFoundError, StoreUnavailableError) as error:
                found.append(error)
        return found

    def head(self, key: str) -> Stat | None:
        path = _path(key)
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unavailable(error, f"looking at {path}") from error
        if stat.S_ISDIR(found.st_mode):
            return None
        return Stat(key, found.st_size, modified_of(found), etag_of(found))

    def head_many(self, keys: Sequence[str]) -> list[Stat | Exception | None]:
        found: list[Stat | Exception | None] = []
        for key in keys:
            try:
                found.append(self.head(key))
            except StoreUnavailableError as error:
                found.append(error)
        return found

    def put(self, key: str, data: bytes) -> None:
        self.put_stream(key, iter((data,)))

    def put_stream(self, key: str, pieces: Iterator[bytes]) -> None:
        path = _path(key)
        try:
            temporary = _write_temporary(path, pieces)
            try:
                os.replace(temporary, path)
            except OSError:
                drop_temporary(temporary)
                raise
            _sync_directory(os.path.dirname(path))
        except OSError as error:
            raise unavailable(error, f"writing {path}") from error

    def create(self, key: str, data: bytes) -> bool:
        """A hard link to a finished file: the name appears whole and durable, or not at all."""
        path = _path(key)
        try:
            if os.path.lexists(path):
                return False
            temporary = _write_temporary(path, iter((data,)))
        except OSError as error:
            raise unavailable(error, f"writing {path}") from error
        try:
            os.link(temporary, path, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            raise unavailable(error, f"creating {path}") from error
        finally:
            drop_temporary(temporary)
        try:
            _sync_directory(os.path.dirname(path))
        except OSError as error:
            raise Ambiguous(f"{path} was created, but the disk did not confirm it: {error}") from error
        return True

    def list(
        self, prefix_key: str, *, after: str | None = None, until: str | None = None, direct: bool = False
    ) -> Iterator[pa.RecordBatch]:
        from lakewarden.storage.walk import walk

        yield from walk(_directory(prefix_key), after=after, until=until, direct=direct)

    def list_names(self, columns: Columns, shard: Shard) -> Iterator[None]:
        """What `list` gives of a shard, into columns and with ordinary files by their names alone."""
        from lakewarden.storage.walk import walk_into

        root = _directory(FileUri.parse(shard.prefix).key)
        return walk_into(columns, root, after=shard.after, until=shard.until, direct=shard.direct, bare=True)

    def children(self, prefix_key: str) -> Children:
        base = _directory(prefix_key)
        try:
            with os.scandir(base) as entries:
                names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return [], False
        except OSError as error:
            raise unavailable(error, f"listing {base}") from error
        return [f"{base[1:]}{name}/" for name in names], False

    def entries(self, prefix_key: str) -> Directory:
        """What lies directly in a directory, in one look at it; `odd` are names and kinds of files that cannot be
        carried. Raises OSError; StoreUnavailableError for a directory that is a link."""
        base = _directory(prefix_key)
        if base != "/" and stat.S_ISLNK(os.lstat(base[:-1]).st_mode):
            raise StoreUnavailableError(f"{base} cannot be listed for what it is (symlink)")
        files: builtins.list[Stat] = []
        below: builtins.list[str] = []
        odd: builtins.list[str] = []
        with os.scandir(base) as entries:
            for entry in entries:
                if bad_name(entry.name) is not None:
                    odd.append(shown(entry.name))
                    continue
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if not stat.S_ISREG(found.st_mode):
                    odd.append(entry.name)
                    continue
                files.append(Stat(entry.name, found.st_size, modified_of(found), etag_of(found)))
        return Directory(tuple(sorted(files, key=lambda file: file.key)), tuple(sorted(below)), tuple(sorted(odd)))

    def first_after(self, prefix_key: str, after: str) -> str | None:
        base = _directory(prefix_key)[1:]
        firsts = [key for batch in self.list(prefix_key, after=after) for key in batch["key"].to_pylist()]
        keys = [key.removeprefix("file:///") for key in firsts]
        return min((key for key in keys if key.startswith(base)), default=None)

    def copy(self, src_key: str, dst_key: str) -> None:
        if self.head(src_key) is None:
            raise FileNotFoundError(f"no such file: /{src_key}")
        self.put_stream(dst_key, self.stream(src_key))

    def stream(self, key: str) -> Iterator[bytes]:
        with self._open(key) as file:
            while piece := file.read(_PIECE):
                yield piece

    def versioned(self) -> bool:
        return False

    def exists_root(self) -> bool:
        return os.path.isdir(self._mount)

    def _open(self, key: str) -> _Regular:
        return _Regular(_path(key))


class _Regular:
    """A regular file opened for reading without following a link in its last component."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> _Regular:
        try:
            # O_NONBLOCK: opening a fifo must not hang the reader.
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(f"no such file: {self._path}") from error
        except OSError as error:
            raise unavailable(error, f"opening {self._path}") from error
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise StoreUnavailableError(f"{self._path} is not a regular file")
        self._fd, self._size = fd, found.st_size
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def seek(self, start: int) -> None:
        os.lseek(self._fd, start, os.SEEK_SET)

    def read_into(self, room: memoryview) -> int:
        """As many bytes from here as there is room for, or the disk has."""
        done = 0
        try:
            while done < len(room) and (some := os.readv(self._fd, [room[done : done + _MOST_AT_ONCE]])):
                done += some
        except OSError as error:
            raise unavailable(error, f"reading {self._path}") from error
        return done

    def read(self, length: int | None = None) -> bytes:
        """So many bytes from here, or all of them: until the disk has no more, whatever the size was at first."""
        left = max(self._size, _LEAST_AT_ONCE) if length is None else length
        pieces = []
        try:
            while left > 0 and (piece := os.read(self._fd, min(left, _MOST_AT_ONCE))):
                pieces.append(piece)
                left -= len(piece)
                if length is None:
                    left = max(left, _LEAST_AT_ONCE)
        except OSError as error:
            raise unavailable(error, f"reading {self._path}") from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _path(key: str) -> str:
    reason = unsafe_key(key)
    if reason is not None:
        raise StoreUnavailableError(f"the path {key!r} cannot be addressed: {reason}")
    return "/" + key


def _directory(prefix_key: str) -> str:
    trimmed = prefix_key.strip("/")
    return f"{_path(trimmed)}/" if trimmed else "/"


def _write_temporary(path: str, pieces: Iterator[bytes]) -> str:
    """A finished, synced file beside `path` under a name of ours."""
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    temporary = os.path.join(directory, temporary_name())
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(fd, "wb") as file:
            written = started = 0
            for piece in pieces:
                file.write(piece)
                written += len(piece)
                if written - started >= _STRETCH:
                    file.flush()
                    _start_writing_back(fd, started, written - started)
                    started = written
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        drop_temporary(temporary)
        raise
    return temporary


def _start_writing_back(fd: int, start: int, length: int) -> None:
    """Let the disk begin with what is written so far, while the rest is made: the sync at the end has less to wait for."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # an advice; the sync counts
            os.posix_fadvise(fd, start, length, os.POSIX_FADV_DONTNEED)


def _sync_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
