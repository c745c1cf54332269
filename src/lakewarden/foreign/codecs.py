"""Blocks of Avro files that others wrote, unpacked within bounds and held against their checksums."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from lakewarden.foreign.unpack import TooMuchError, inflate

# Unpacks a block; raises TooMuchError if more than so many bytes come out, ValueError or OSError if it is damaged.
Unpack = Callable[[bytes, int], bytes]

# What one file may hold unpacked: names repeat, so a block packs to a tenth or a twentieth, and a small file to less.
ROOM, RATIO, LARGEST = 16 << 20, 64, (2 << 30) - 1


def most_unpacked(size: int) -> int:
    """How many bytes a file of that size may hold."""
    return min(LARGEST, ROOM + RATIO * size)


def unpacker(codec: bytes) -> Unpack:
    """What unpacks the blocks of that codec. Raises ValueError for one that nobody knows."""
    try:
        return _CODECS[codec]
    except KeyError:
        raise ValueError(f"codec {codec[:40].decode(errors='replace')}") from None


def _plain(block: bytes, most: int) -> bytes:
    if len(block) > most:
        raise TooMuchError(most)
    return block


def _deflate(block: bytes, most: int) -> bytes:
    out, left_over = inflate(block, most)
    # Python writers leave (most of) zlib's own checksum behind the stream: if it is there, it must be right.
    if left_over != zlib.adler32(out).to_bytes(4, "big")[: len(left_over)]:
        raise ValueError("a damaged deflate block")
    return out


def _snappy(block: bytes, most: int) -> bytes:
    import pyarrow as pa

    body, checksum = block[:-4], int.from_bytes(block[-4:], "big")
    length = _unsigned(body)
    if length > most:
        raise TooMuchError(most)
    out: bytes = pa.decompress(body, decompressed_size=length, codec="snappy", asbytes=True)
    if zlib.crc32(out) != checksum:
        raise ValueError("a snappy block with a wrong checksum")
    return out


def _unsigned(data: bytes) -> int:
    value = 0
    for place, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value
    raise ValueError("a snappy block without a length")


def _zstandard(block: bytes, most: int) -> bytes:
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.BufferReader(block), "zstd")
    out: bytes = stream.read(most + 1)
    if len(out) > most:
        raise TooMuchError(most)
    return out


_CODECS: dict[bytes, Unpack] = {
    b"null": _plain,
    b"deflate": _deflate,
    b"snappy": _snappy,
    b"zstandard": _zstandard,
}
