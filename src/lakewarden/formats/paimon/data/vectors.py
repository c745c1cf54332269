"""Deletion vectors: which rows of a file are deleted, and the files that hold the vectors of many files.

A file of vectors is a version and one vector after the other. Paimon reads them in that order, without looking at where each
begins, so a file without some of its vectors is written anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakewarden.model.errors import IncompleteManifestError

VERSION = b"\x01"
_MAGIC = (1581511376).to_bytes(4, "big")  # of a bitmap of 32 bits
_MAGIC_64 = (1681511377).to_bytes(4, "little")
_LENGTH, _CRC = 4, 4

Positions = NDArray[np.int64]
Range = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Vector:
    """Where the vector of one data file lies. `rows` is how many positions it has, where the index says so."""

    path: str
    offset: int
    length: int
    rows: int | None

    @property
    def name(self) -> str:
        """What tells one vector from every other."""
        return f"{self.path}#{self.offset}+{self.length}"


def positions(data: bytes, vector: Vector, most: int) -> Positions:
    """The positions in a vector, in order; `data` is the whole file. Raises IncompleteManifestError unless it is whole.

    `most`: of how many rows its data file is. A bitmap of a few bytes may stand for more positions than memory holds, so
    they are counted before they are spelled out.
    """
    from pyroaring import BitMap, BitMap64

    blob = _blob(data, vector)
    body = blob[_LENGTH:-_CRC]
    wide = body[:4] == _MAGIC_64
    # The length that the index notes is the body's in the narrow form, and the whole vector's in the wide one.
    if vector.length != (len(blob) if wide else len(body)) or not (wide or body[:4] == _MAGIC):
        raise _broken(vector, "is cut or no vector")
    if zlib.crc32(body) != int.from_bytes(blob[-_CRC:], "big"):
        raise _broken(vector, "has another checksum")
    try:
        bitmap = BitMap64 if wide else BitMap
        found = bitmap.deserialize(body[4:])
    except Exception as error:  # whatever a damaged bitmap makes its decoder raise
        raise _broken(vector, f"cannot be read ({error})") from error
    if vector.rows is not None and len(found) != vector.rows:
        raise _broken(vector, f"has {len(found)} positions and should have {vector.rows}")
    if len(found) > most:
        raise _broken(vector, f"has {len(found)} positions for a file of {most} rows")
    return np.fromiter(found, np.int64, len(found))


def without(data: bytes, path: str, ranges: Sequence[Range], gone: Collection[str]) -> tuple[bytes, list[Range]]:
    """A file of vectors without those of some data files, and where each of the others lies in it. None is decoded."""
    parts, at = [VERSION], len(VERSION)
    left: list[Range] = []
    if data[: len(VERSION)] != VERSION:
        raise IncompleteManifestError(f"{path} is no file of deletion vectors; nothing was changed")
    for found in sorted(ranges, key=lambda one: int(one["f1"])):
        if found["f0"] in gone:
            continue
        blob = _blob(data, Vector(path, int(found["f1"]), int(found["f2"]), None))
        parts.append(blob)
        left.append({**found, "f1": at})
        at += len(blob)
    return b"".join(parts), left


def _blob(data: bytes, vector: Vector) -> bytes:
    """A vector with its length before it and its checksum behind."""
    start = vector.offset
    length = int.from_bytes(data[start : start + _LENGTH], "big")
    blob = data[start : start + _LENGTH + length + _CRC]
    if length < 4 or len(blob) != _LENGTH + length + _CRC:
        raise _broken(vector, "is cut")
    return blob


def _broken(vector: Vector, how: str) -> IncompleteManifestError:
    return IncompleteManifestError(f"the deletion vector {vector.name} {how}; nothing was rewritten")
