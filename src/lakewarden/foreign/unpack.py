"""Packed bytes that others wrote, unpacked up to a limit: a few kilobytes can claim to be terabytes."""

from __future__ import annotations

import zlib

GZIP_MAGIC = b"\x1f\x8b"
# Writers make one; each further one costs a copy of all that is behind it.
MOST_MEMBERS = 100


class TooMuchError(ValueError):
    """More came out than was allowed; the rest was not unpacked."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it holds more than {most:,} bytes unpacked")


def gunzip(data: bytes, most: int) -> bytes:
    """All members of a gzip file. Raises TooMuchError beyond `most` bytes, ValueError for a damaged file."""
    out: list[bytes] = []
    size = 0
    for _ in range(MOST_MEMBERS):
        member, data = _inflate(data, zlib.MAX_WBITS | 16, most - size)
        size += len(member)
        out.append(member)
        if not data.strip(b"\0"):  # zeros behind the last member are padding
            return b"".join(out)
    raise ValueError(f"it has more than {MOST_MEMBERS} packed members")


def inflate(data: bytes, most: int) -> tuple[bytes, bytes]:
    """A raw deflate stream, and what lies behind it. Raises as `gunzip` does."""
    return _inflate(data, -zlib.MAX_WBITS, most)


def _inflate(data: bytes, bits: int, most: int) -> tuple[bytes, bytes]:
    unpacker = zlib.decompressobj(bits)
    try:
        # One byte more than allowed is asked for, because 0 would mean "all of it".
        out = unpacker.decompress(data, most + 1)
        if len(out) > most:
            raise TooMuchError(most)
        if rest := unpacker.flush():
            out += rest
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("it is cut within a packed stream")
    if len(out) > most:
        raise TooMuchError(most)
    return out, unpacker.unused_data
