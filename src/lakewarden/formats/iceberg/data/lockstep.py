"""Thrift's compact protocol in many files at once: one step of numpy takes the same field of all of them.

Files of one writer and one schema say the same things in the same order, and only their numbers differ. A file that says
anything else is told apart, and read by itself. Bytes are foreign: no place beyond a file's own end is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakewarden.formats.iceberg.data.thrift import BINARY, BYTE, DOUBLE, FALSE, I16, I32, I64, STRUCT, TRUE, end_of

Numbers = NDArray[np.int64]
# No count, size or place of a small file takes more bits.
_LONGEST_NUMBER = 8
# Steps beyond the last file's end land here, before they are found to be wrong.
_MARGIN = 64


class UnlikeError(Exception):
    """Files that are not as the first one is."""

    def __init__(self, others: NDArray[np.bool_]) -> None:
        super().__init__(f"{int(others.sum())} of {len(others)} files are not as the first one is")
        self.others = others


class Lockstep:
    """A cursor in each of these files, all of them at the same field. `bases` are the places of the files in `bytes`."""

    def __init__(self, files: list[bytes]) -> None:
        self.bytes = b"".join([*files, bytes(_MARGIN)])
        self.sizes: Numbers = np.array([len(one) for one in files], np.int64)
        self.bases: Numbers = np.cumsum(self.sizes) - self.sizes
        self._data = np.frombuffer(self.bytes, np.uint8)
        self.at = self.bases
        self.ends = self.bases + self.sizes

    def go(self, starts: Numbers, ends: Numbers) -> None:
        """Go on at other places, counted from the start of each file."""
        wrong = (starts < 0) | (ends < starts) | (ends > self.sizes)
        self.require(~wrong)
        self.at, self.ends = self.bases + starts, self.bases + ends

    def require(self, true: NDArray[np.bool_]) -> None:
        """Raise UnlikeError unless this is so of all files."""
        if not true.all():
            raise UnlikeError(~true)

    def same(self, found: Any) -> int:
        """A number that must be the first file's in all of them."""
        self.require(found == found[0])
        return int(found[0])

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of each field of a struct; its value has to be taken before the next is asked for."""
        number = 0
        while head := self.same(self._byte()):
            kind, step = head & 15, head >> 4
            number = number + step if step else self.same(self.signed())
            yield number, kind

    def signed(self) -> Numbers:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def members(self) -> tuple[int, int]:
        """How many members a list has, and of which kind."""
        head = self.same(self._byte())
        return (head >> 4 if head >> 4 < 15 else self.same(self._unsigned())), head & 15

    def constant(self, kind: int) -> None:
        """A value that has the same bytes in all files."""
        start = int(self.at[0])
        wanted = self.bytes[start : end_of(self.bytes, start, kind)]
        self.require(np.array([self.bytes.startswith(wanted, at) for at in self.at.tolist()]))
        self.pass_by(np.full(len(self.at), len(wanted), np.int64))

    def skip(self, kind: int) -> None:
        """A value that does not matter."""
        if kind in (I16, I32, I64):
            self._unsigned()
        elif kind == BINARY:
            self.pass_by(self._unsigned())
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (BYTE, DOUBLE):
            self.pass_by(np.full(len(self.at), 1 if kind == BYTE else 8, np.int64))
        elif kind not in (TRUE, FALSE):
            self.constant(kind)

    def pass_by(self, lengths: Numbers) -> Numbers:
        """So many bytes of each file. Where they begin."""
        self.require((lengths >= 0) & (lengths <= self.ends - self.at))
        start = self.at
        self.at = start + lengths
        return start

    def at_ends(self, length: int) -> NDArray[np.uint8]:
        """The last bytes of each file."""
        self.require(self.sizes >= length)
        found: NDArray[np.uint8] = self._data[(self.bases + self.sizes)[:, None] - np.arange(length, 0, -1)]
        return found

    def begin_with(self, wanted: bytes) -> None:
        """Raise UnlikeError for files that do not begin with these bytes."""
        self.require(np.array([self.bytes.startswith(wanted, at) for at in self.bases.tolist()]))

    def finished(self) -> NDArray[np.bool_]:
        """Which files have come to where they were to end. Raises UnlikeError for those that went beyond."""
        self.require(self.at <= self.ends)
        return np.asarray(self.at == self.ends)

    def _byte(self) -> Any:
        found = self._data[self.at]
        self.at = self.at + 1
        return found

    def _unsigned(self) -> Numbers:
        byte = self._byte()
        found: Numbers = (byte & 127).astype(np.int64)
        more = byte > 127
        for place in range(1, _LONGEST_NUMBER):
            if not more.any():
                return found
            byte = self._data[self.at]
            found |= np.where(more, (byte & 127).astype(np.int64) << (7 * place), 0)
            self.at = self.at + more
            more &= byte > 127
        self.require(~more)
        return found
