"""The bytes of a data file: whole where it is small, range by range where it is not, and the next one while this one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.file_bytes import Ranges, whole
from lakewarden.formats.iceberg.data.order import Input
from lakewarden.formats.iceberg.data.write import Sink
from lakewarden.model.uri import canonical

BATCH_ROWS = 65_536
# A file up to this size is fetched whole: a request for each of its columns would cost more than its bytes.
WHOLE = 64 << 20
_PIECE = 8 << 20
# Small files are fetched so many, and so many bytes, at a time: side by side, where each costs a round trip.
_AT_ONCE, _AT_ONCE_BYTES, _READERS = 64, 16 << 20, 16


class DataFiles(Sink, Protocol):
    """What rewriting asks of the stores."""

    def get(self, uri: str) -> bytes: ...

    def get_range(self, uri: str, start: int, length: int) -> bytes: ...


class Source:
    """One data file. `data` are its bytes if it was fetched whole."""

    def __init__(self, files: DataFiles, one: Input, data: bytes | None) -> None:
        self._files, self._one, self._data = files, one, data

    @staticmethod
    def of(files: DataFiles, one: Input) -> Source:
        return Source(files, one, whole(files, canonical(one.path), one.size) if one.size <= WHOLE else None)

    def opened(self) -> pq.ParquetFile:
        source: Any = (
            Ranges(self._files, canonical(self._one.path), self._one.size)
            if self._data is None
            else pa.BufferReader(self._data)
        )
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


def one_by_one(files: DataFiles, inputs: Sequence[Input]) -> Iterator[tuple[Input, Source]]:
    """Each data file with its bytes, in order; small ones of a store are fetched some at a time, before they are used."""
    waiting: list[Input] = []
    weight = 0
    with ThreadPoolExecutor(_READERS) as pool:
        for one in inputs:
            if weight + one.size > _AT_ONCE_BYTES or len(waiting) == _AT_ONCE:
                yield from _side_by_side(files, waiting, pool)
                waiting, weight = [], 0
            waiting.append(one)
            weight += one.size
        yield from _side_by_side(files, waiting, pool)


def _side_by_side(
    files: DataFiles, inputs: Sequence[Input], pool: ThreadPoolExecutor
) -> Iterator[tuple[Input, Source]]:
    if len(inputs) < 2 or canonical(inputs[0].path).startswith("file:"):
        # A disk has no round trips that could be saved.
        found: Iterable[Source] = (Source.of(files, one) for one in inputs)
    else:
        found = pool.map(Source.of, [files] * len(inputs), inputs)
    yield from zip(inputs, found, strict=True)


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
