"""The bytes of a data file: whole where it is small, range by range where it is not, and the next one while this one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.file_bytes import Ranges, too_short, whole
from lakewarden.formats.iceberg.data.order import Input
from lakewarden.formats.iceberg.data.write import Sink
from lakewarden.model.uri import canonical

BATCH_ROWS = 65_536
# A file up to this size is fetched whole: a request for each of its columns would cost more than its bytes.
WHOLE = 64 << 20
_PIECE = 8 << 20
# Small files are fetched so many, with so many bytes, rows and values, at a time: side by side, where each costs a round
# trip. So many values are half of what may be read together.
_AT_ONCE, _AT_ONCE_BYTES, _AT_ONCE_ROWS, _AT_ONCE_VALUES, _READERS = 256, 16 << 20, 1 << 19, 1 << 22, 16


class DataFiles(Sink, Protocol):
    """What rewriting asks of the stores."""

    def get(self, uri: str) -> bytes: ...

    def get_range(self, uri: str, start: int, length: int) -> bytes: ...

    def read_into(self, uri: str, room: memoryview) -> int: ...


class Source:
    """One data file. `data` are its bytes if it was fetched whole."""

    def __init__(self, files: DataFiles, one: Input, data: bytes | memoryview | None) -> None:
        self._files, self._one, self.data = files, one, data

    @staticmethod
    def of(files: DataFiles, one: Input) -> Source:
        return Source(files, one, whole(files, canonical(one.path), one.size) if one.size <= WHOLE else None)

    def opened(self) -> pq.ParquetFile:
        source: Any = (
            Ranges(self._files, canonical(self._one.path), self._one.size)
            if self.data is None
            else pa.BufferReader(self.data)
        )
        return pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)

    def pieces(self, start: int, length: int) -> Iterator[bytes | memoryview]:
        """A stretch of the file, in pieces of bounded size. Raises ValueError if the file is shorter."""
        if self.data is not None:
            if start + length > len(self.data):
                raise ValueError(f"{self._one.path} ends too early")
            yield memoryview(self.data)[start : start + length]
            return
        while length > 0:
            found = self._files.get_range(canonical(self._one.path), start, min(length, _PIECE))
            if not found:
                raise ValueError(f"{self._one.path} ends too early")
            yield found
            start, length = start + len(found), length - len(found)

    def stretch(self, start: int, length: int) -> bytes:
        return b"".join(self.pieces(start, length))


def some_at_a_time(files: DataFiles, inputs: Sequence[Input], columns: int) -> Iterator[list[tuple[Input, Source]]]:
    """The data files with their bytes, in order: one large file alone, of small ones as many as are well held together."""
    most_rows = min(_AT_ONCE_ROWS, _AT_ONCE_VALUES // max(1, columns))
    waiting: list[Input] = []
    size = rows = 0
    with ThreadPoolExecutor(_READERS) as pool:
        for one in inputs:
            full = size + one.size > _AT_ONCE_BYTES or rows + one.rows > most_rows or len(waiting) == _AT_ONCE
            if full and waiting:
                yield _side_by_side(files, waiting, pool)
                waiting, size, rows = [], 0, 0
            waiting.append(one)
            size, rows = size + one.size, rows + one.rows
        yield _side_by_side(files, waiting, pool)


def _side_by_side(files: DataFiles, inputs: Sequence[Input], pool: ThreadPoolExecutor) -> list[tuple[Input, Source]]:
    if len(inputs) < 2 or canonical(inputs[0].path).startswith("file:"):
        # A disk has no round trips that could be saved.
        found: Iterable[Source] = (Source.of(files, one) for one in inputs)
    else:
        found = pool.map(Source.of, [files] * len(inputs), inputs)
    return list(zip(inputs, found, strict=True))


class Sources:
    """Data files one after the other. While one is used, the next is fetched, into memory that an earlier one had: to have
    fresh memory for each costs as much as to copy it."""

    def __init__(self, files: DataFiles, inputs: tuple[Input, ...]) -> None:
        self._files, self._inputs = files, inputs
        self._pool = ThreadPoolExecutor(1)
        self._now: tuple[int, Source] | None = None
        self._next: tuple[int, Future[Source]] | None = None
        self._rooms: list[bytearray] = []
        self._turn = Lock()

    def at(self, place: int) -> Source:
        """The file at a place of the list; asked for in its order."""
        if self._now is None or self._now[0] != place:
            self._now = None
            ahead, self._next = self._next, None
            fetched = ahead[1] if ahead is not None and ahead[0] == place else None
            found = self._fetched(self._inputs[place]) if fetched is None else fetched.result()
            self._now = (place, found)
            if place + 1 < len(self._inputs):
                self._next = (place + 1, self._pool.submit(self._fetched, self._inputs[place + 1]))
        return self._now[1]

    def _fetched(self, one: Input) -> Source:
        if one.size > WHOLE:
            return Source(self._files, one, None)
        with self._turn:
            free = next((room for room in self._rooms if len(room) >= one.size and _is_free(room)), None)
            if free is None:
                # Those that are free and too small are let go.
                free = bytearray(one.size)
                self._rooms = [free, *(room for room in self._rooms if not _is_free(room))]
            data = memoryview(free)[: one.size]
        if (length := self._files.read_into(canonical(one.path), data)) != one.size:
            raise too_short(one.path, length, one.size)
        return Source(self._files, one, data)

    def close(self) -> None:
        self._now = self._next = None
        self._pool.shutdown(cancel_futures=True)


def _is_free(room: bytearray) -> bool:
    """Whether nobody looks at this memory any more, such as an upload that is under way: Python lets no other be resized."""
    try:
        room.append(room.pop())
    except BufferError:
        return False
    except IndexError:
        return True  # it is empty
    return True
