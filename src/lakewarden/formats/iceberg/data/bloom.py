"""Bloom filters of Parquet files, which Arrow does not write: split blocks over XXH64 of each value's plain bytes.

A reader that finds no trace of a value in a filter skips the row group, so every value must leave its trace: all are hashed
from the bytes that the file stores, a batch of equal length at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.formats.iceberg.data.thrift import I32, STRUCT, Field, Struct, dumps

BLOCK = 32  # bytes
LARGEST = 128 << 20
_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
    )
)  # fmt: skip
# What the four lanes begin with: the sum of two primes, the second, nothing, and what takes the first back to nothing.
_STARTS = np.array([0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579], np.uint64)
_PIECE = 4 << 20  # bytes of values that are laid side by side at once

Hashes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


def bloom_filter(column: pa.ChunkedArray, false_positives: float, most_bytes: int, distinct: int | None) -> bytes:
    """The filter of a row group's values, as a file holds it. `distinct` is the owner's own guess at how many there are."""
    values = pc.unique(_as_stored(column).combine_chunks()).drop_null()
    size = _size(distinct or len(values), false_positives, most_bytes)
    words = np.zeros(size // 4, np.uint32)
    for hashes in _hashes(values):
        _enter(words, hashes)
    unions: Struct = {number: Field(STRUCT, {1: Field(STRUCT, {})}) for number in (2, 3, 4)}
    return dumps({1: Field(I32, size), **unions}) + words.astype("<u4").tobytes()


def _size(distinct: int, false_positives: float, most_bytes: int) -> int:
    """Bytes for so many values, a power of two; never more than the owner allows."""
    bits = -8 * max(1, distinct) / math.log(1 - false_positives ** (1 / 8))
    wanted = 1 << max(5, math.ceil(math.log2(bits / 8)))
    return min(wanted, 1 << max(5, min(most_bytes, LARGEST).bit_length() - 1))


def _enter(words: NDArray[np.uint32], hashes: Hashes) -> None:
    blocks = np.uint64(len(words) // 8)
    place = ((hashes >> np.uint64(32)) * blocks >> np.uint64(32)).astype(np.int64) * 8
    key = hashes.astype(np.uint32)
    for number, salt in enumerate(_SALTS):
        np.bitwise_or.at(words, place + number, np.uint32(1) << (key * salt >> np.uint32(27)))


def _as_stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values whose equality is that of their stored bytes: the two zeros are not one, nor is every number that is none."""
    kind = column.type
    if pa.types.is_floating(kind):
        integers = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.chunked_array([chunk.view(integers) for chunk in column.chunks], integers)
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) else column


def _hashes(values: pa.Array) -> Iterator[Hashes]:
    if not len(values):
        return
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield from _of_many_lengths(values)
        return
    width = 16 if pa.types.is_decimal(kind) else kind.bit_width // 8
    raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
    rows = raw.reshape(len(values), width)
    yield xxh64(_decimals(rows, kind) if pa.types.is_decimal(kind) else rows)


def _decimals(rows: Bytes, kind: Any) -> Bytes:
    """Arrow's sixteen bytes, the lowest first, as Parquet stores them: integers alike, longer ones the highest first."""
    if kind.precision <= 18:
        return rows[:, : 4 if kind.precision <= 9 else 8]
    length = ((10**kind.precision - 1).bit_length() + 8) // 8
    return rows[:, :length][:, ::-1]


def _of_many_lengths(values: pa.Array) -> Iterator[Hashes]:
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1].astype(np.int64)
    # Without a single byte there is no buffer.
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(lengths[order])) + 1, [len(order)]])
    for first, end in pairwise(starts):
        length = int(lengths[order[first]])
        step = max(1, _PIECE // max(1, length))
        for at in range(first, end, step):
            rows = order[at : min(end, at + step)]
            yield xxh64(data[offsets[rows][:, None] + np.arange(length)])


def xxh64(rows: Bytes) -> Hashes:
    """The hash of each row of bytes, with the seed 0."""
    count, length = rows.shape
    at = 0
    if length >= 32:
        lanes = [np.full(count, one, np.uint64) for one in _STARTS]
        while at + 32 <= length:
            for place, lane in enumerate(lanes):
                lanes[place] = _round(lane, _lane(rows, at + 8 * place))
            at += 32
        found = np.zeros(count, np.uint64)
        for lane, by in zip(lanes, (1, 7, 12, 18), strict=True):
            found = found + _rotated(lane, by)
        for lane in lanes:
            found = (found ^ _round(np.zeros(count, np.uint64), lane)) * _P1 + _P4
    else:
        found = np.full(count, _P5, np.uint64)
    found = found + np.uint64(length)
    while at + 8 <= length:
        found = _rotated(found ^ _round(np.zeros(count, np.uint64), _lane(rows, at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= length:
        four = np.ascontiguousarray(rows[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
        found = _rotated(found ^ four * _P1, 23) * _P2 + _P3
        at += 4
    for place in range(at, length):
        found = _rotated(found ^ rows[:, place].astype(np.uint64) * _P5, 11) * _P1
    found = (found ^ found >> np.uint64(33)) * _P2
    found = (found ^ found >> np.uint64(29)) * _P3
    return found ^ found >> np.uint64(32)


def _lane(rows: Bytes, at: int) -> Hashes:
    found: Hashes = np.ascontiguousarray(rows[:, at : at + 8]).view("<u8")[:, 0].astype(np.uint64)
    return found


def _round(lane: Hashes, value: Hashes) -> Hashes:
    return _rotated(lane + value * _P2, 31) * _P1


def _rotated(lane: Hashes, by: int) -> Hashes:
    return lane << np.uint64(by) | lane >> np.uint64(64 - by)
