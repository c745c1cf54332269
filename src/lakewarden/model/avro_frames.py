"""The frames of Avro's container format: its header, and the numbers and texts that everything in it is made of. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MAGIC = b"Obj\x01"
SYNC_BYTES = 16


def header(data: bytes) -> tuple[dict[bytes, bytes], int]:
    """The header's names and values in their order, and where the sync marker begins.

    Raises ValueError or LookupError for what is no such file, or is cut before its end.
    """
    if not data.startswith(MAGIC):
        raise ValueError(f"starts with {data[:4]!r}")
    meta: dict[bytes, bytes] = {}
    at = len(MAGIC)
    while True:  # a map of names and bytes, in pieces
        count, at = number(data, at)
        if count == 0:
            return meta, at
        if count < 0:
            _, at = number(data, at)
        for _ in range(abs(count)):
            length, at = number(data, at)
            key, at = take(data, at, length)
            length, at = number(data, at)
            meta[key], at = take(data, at, length)


def blocks(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Each block's number of rows and its bytes as packed, from the sync marker at `at` up to the last byte.

    Raises ValueError or LookupError where a byte is missing or out of place: a decoder that meets a cut file may return
    the rows before the cut and say nothing.
    """
    sync, at = take(data, at, SYNC_BYTES)
    size = len(data)
    while at < size:
        # Some writers give each row a block of its own, so numbers of one and two bytes are read on the spot.
        count = data[at]
        if count < 0x80:
            count, at = (count >> 1) ^ -(count & 1), at + 1
        else:
            count, at = number(data, at)
        low = data[at]
        if low >= 0x80 and (high := data[at + 1]) < 0x80:
            value = low & 0x7F | high << 7
            length, at = (value >> 1) ^ -(value & 1), at + 2
        else:
            length, at = number(data, at)
        if count < 0 or length < 0:
            raise ValueError("a block with a negative size")
        end = at + length
        if not data.startswith(sync, end):
            raise ValueError(f"cut at byte {size}" if end + SYNC_BYTES > size else f"sync marker missing at byte {end}")
        yield count, data[at:end]
        at = end + SYNC_BYTES


def headed(meta: Mapping[bytes, bytes], sync: bytes) -> bytes:
    """The bytes of a header, its sync marker included."""
    members = b"".join(text(key) + text(value) for key, value in meta.items())
    return MAGIC + long(len(meta)) + members + long(0) + sync


def take(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    """So many bytes, and where the next thing begins. Raises ValueError where there are fewer."""
    end = at + length
    if length < 0 or end > len(data):
        raise ValueError(f"cut at byte {len(data)}")
    return data[at:end], end


def number(data: bytes, at: int) -> tuple[int, int]:
    """One zigzag number of variable length, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if shift == 63 and byte > 1:  # it would not fit into 64 bits
            raise ValueError(f"not a number at byte {at}")
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def long(value: int) -> bytes:
    """A number as the format writes it."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def text(value: bytes) -> bytes:
    """Bytes with their length before them."""
    return long(len(value)) + value
