"""The bytes of a data file: whole where it is small, range by range where it is not, and the next one while this one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import RawIOBase
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.iceberg.data.order import Input
from lakewarden.formats.iceberg.data.write import Sink
from lakewarden.model.errors import IncompleteManifestError
from lakewarden.model.uri import canonical

BATCH_ROWS = 65_536
# A file up to this size is fetched whole: a request for each of its columns would cost more than its bytes.
WHOLE = 64 << 20
_PIECE = 8 << 20


class DataFiles(Sink, Protocol):
    """What rewriting asks of the stores."""

    def get(self, uri: str) -> bytes: ...

    def get_range(self, uri: str, start: int, length: int) -> bytes: ...


def whole(files: DataFiles, path: str, size: int) -> bytes:
    """A file's bytes, as many as its manifest says: readers find its footer by that. Raises IncompleteManifestError."""
    found = files.get_range(canonical(path), 0, size)
    if len(found) != size:
        raise IncompleteManifestError(f"{path} has {len(found)} bytes and should have {size}; nothing was rewritten")
    return found


class Source:
    """One data file. `data` are its bytes if it was fetched whole."""

    def __init__(self, files: DataFiles, one: Input, data: bytes | None) -> None:
        self._files, self._one, self._data = files, one, data

    @staticmethod
    def of(files: DataFiles, one: Input) -> Source:
        return Source(files, one, whole(files, one.path, one.size) if one.size <= WHOLE else None)

    def opened(self) -> pq.ParquetFile:
        source: Any = _Ranges(self._files, self._one) if self._data is None else pa.BufferReader(self._data)
        return pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)

    def pieces(self, start: int, length: int) -> Iterator[bytes | memoryview]:
        """A stretch of the file, in pieces of bounded size. Raises ValueError if the file is shorter."""
        if self._data is not None:
            if start + length > len(self._data):
                raise ValueError(f"{self._one.path} ends too early")
            yield memoryview(self._data)[start : start + length]
            return
        while length > 0:
            found = self._files.get_range(canonical(self._one.path), start, min(length, _PIECE))
            if not found:
                raise ValueError(f"{self._one.path} ends too early")
            yield found
            start, length = start + len(found), length - len(found)

    def stretch(self, start: int, length: int) -> bytes:
        return b"".join(self.pieces(start, length))


class Sources:
    """Data files one after the other. While one is used, the next is fetched."""

    def __init__(self, files: DataFiles, inputs: tuple[Input, ...]) -> None:
        self._files, self._inputs = files, inputs
        self._pool = ThreadPoolExecutor(1)
        self._now: tuple[int, Source] | None = None
        self._next: tuple[int, Future[Source]] | None = None

    def at(self, place: int) -> Source:
        """The file at a place of the list; asked for in its order."""
        if self._now is None or self._now[0] != place:
            self._now = None
            ahead, self._next = self._next, None
            if ahead is not None and ahead[0] == place:
                found = ahead[1].result()
            else:
                found = Source.of(self._files, self._inputs[place])
            self._now = (place, found)
            if place + 1 < len(self._inputs):
                self._next = (place + 1, self._pool.submit(Source.of, self._files, self._inputs[place + 1]))
        return self._now[1]

    def close(self) -> None:
        self._now = self._next = None
        self._pool.shutdown(cancel_futures=True)


class _Ranges(RawIOBase):
    """A large object read piece by piece."""

    def __init__(self, files: DataFiles, one: Input) -> None:
        self._files, self._uri, self._size, self._at = files, canonical(one.path), one.size, 0

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
