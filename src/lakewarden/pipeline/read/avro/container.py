"""Avro's container format, frame by frame: the proof that a file is whole.

A decoder that meets a cut file may return the rows before the cut and say nothing. Here every frame's
sync marker is checked up to the last byte and every block is unpacked, before any decoder sees it.
Written by hand because no library hands out frames: the decoders that are fast hide them, and joining
the blocks of many files into one is what makes a fleet of small manifests cheap to decode.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakewarden.model.avro_frames import blocks, headed, header, long
from lakewarden.model.errors import IncompleteManifestError

_SYNC = b"lakewarden-sync!"


@dataclass(frozen=True, slots=True)
class Container:
    """One file's rows, still encoded but unpacked: the writer's schema, the row count, the bytes; and how the file began."""

    schema: bytes
    rows: int
    body: bytes
    head: bytes = b""
    codec: bytes = b"null"


def open_container(data: bytes, before: Container | None = None) -> Container:
    """Unpack a whole file. Raises IncompleteManifestError where a byte is missing or out of place.

    Most files begin as the one `before` them did, up to the marker: of those the header is not read again.
    """
    try:
        return _open(data, before)
    except (LookupError, ValueError, OverflowError, MemoryError, OSError, zlib.error, pa.ArrowException) as error:
        raise IncompleteManifestError(f"not a whole Avro file ({type(error).__name__}: {error})") from error


def merge(containers: Sequence[Container]) -> Iterator[bytes]:
    """One file with the rows of many of the same schema, in order, one block each; piece by piece."""
    yield headed({b"avro.schema": decodable(containers[0].schema), b"avro.codec": b"null"}, _SYNC)
    for container in containers:
        if container.rows:
            yield long(container.rows) + long(len(container.body))
            yield container.body
            yield _SYNC


@lru_cache(maxsize=4096)
def decodable(schema: bytes) -> bytes:
    """The schema without fields that are empty records, such as an unpartitioned table's partition.

    They take no bytes in the file, and the decoder cannot represent them.
    """
    try:
        return json.dumps(_without_empty(json.loads(schema))).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise IncompleteManifestError(f"a schema that cannot be read ({error})") from error


def _without_empty(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_empty(option) for option in schema]
    if not isinstance(schema, dict):
        return schema
    lean = {
        key: _without_empty(value) if key in ("type", "items", "values") else value for key, value in schema.items()
    }
    if lean.get("type") == "record":
        fields = [_without_empty(field) for field in lean["fields"]]
        lean["fields"] = [field for field in fields if not _is_empty(field["type"])]
    return lean


def _is_empty(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record" and not schema["fields"]


def _open(data: bytes, before: Container | None) -> Container:
    if before is not None and before.head and data.startswith(before.head):
        schema, codec, head = before.schema, before.codec, before.head
    else:
        meta, at = header(data)
        schema, codec, head = meta[b"avro.schema"], meta.get(b"avro.codec", b"null"), data[:at]
    unpack = _codec(codec)
    rows, bodies = 0, []
    for count, block in blocks(data, len(head)):
        bodies.append(unpack(block))
        rows += count
    return Container(schema, rows, b"".join(bodies), head, codec)


def _codec(name: bytes) -> Callable[[bytes], bytes]:
    try:
        return _CODECS[name]
    except KeyError:
        raise ValueError(f"codec {name.decode(errors='replace')}") from None


def _deflate(block: bytes) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    out = unpacker.decompress(block)
    # Python writers leave (most of) zlib's own checksum behind the stream: if it is there, it must be right.
    left_over = unpacker.unused_data
    if not unpacker.eof or left_over != zlib.adler32(out).to_bytes(4, "big")[: len(left_over)]:
        raise ValueError("a damaged deflate block")
    return out


def _snappy(block: bytes) -> bytes:
    body, checksum = block[:-4], int.from_bytes(block[-4:], "big")
    length, _ = _unsigned(body)
    out: bytes = pa.decompress(body, decompressed_size=length, codec="snappy", asbytes=True)
    if zlib.crc32(out) != checksum:
        raise ValueError("a snappy block with a wrong checksum")
    return out


def _unsigned(data: bytes) -> tuple[int, int]:
    value = shift = at = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _zstandard(block: bytes) -> bytes:
    stream = pa.CompressedInputStream(pa.BufferReader(block), "zstd")
    out: bytes = stream.read()
    return out


_CODECS: dict[bytes, Callable[[bytes], bytes]] = {
    b"null": lambda block: block,
    b"deflate": _deflate,
    b"snappy": _snappy,
    b"zstandard": _zstandard,
}
