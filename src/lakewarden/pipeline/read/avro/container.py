"""Avro's container format, frame by frame: the proof that a file is whole.

A decoder that meets a cut file may return the rows before the cut and say nothing. Here every frame's
sync marker is checked up to the last byte and every block is unpacked, before any decoder sees it.
Written by hand because no library hands out frames: the decoders that are fast hide them, and joining
the blocks of many files into one is what makes a fleet of small manifests cheap to decode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakewarden.foreign.avro_ending import doubtful_end
from lakewarden.foreign.avro_schema import read_schema
from lakewarden.foreign.codecs import most_unpacked, unpacker
from lakewarden.foreign.unpack import TooMuchError
from lakewarden.model.avro_frames import blocks, headed, header, long
from lakewarden.model.errors import BoundsError, IncompleteManifestError, UnreadableMetadataError

_SYNC = b"lakewarden-sync!"


@dataclass(frozen=True, slots=True)
class Container:
    """One file's rows, still encoded but unpacked: the writer's schema, the row count, the bytes; and how the file began.

    `doubt` says in words why the file may have lost whole blocks at its end; empty where it has not.
    """

    schema: bytes
    rows: int
    body: bytes
    head: bytes = b""
    codec: bytes = b"null"
    doubt: str = ""


def open_container(data: bytes, before: Container | None = None) -> Container:
    """Unpack a whole file. Raises IncompleteManifestError where a byte is missing or out of place, BoundsError where it
    holds more than a file of its size honestly can.

    Most files begin as the one `before` them did, up to the marker: of those the header is not read again.
    """
    try:
        return _open(data, before)
    except TooMuchError as error:
        raise BoundsError(f"is beyond what is read of one file ({error})") from error
    except (LookupError, ValueError, OverflowError, MemoryError, OSError, pa.ArrowException) as error:
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
        return json.dumps(_without_empty(read_schema(schema))).encode()
    except (UnreadableMetadataError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
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
    unpack = unpacker(codec)
    sizes: list[tuple[int, int]] = []
    bodies, left = [], most_unpacked(len(data))
    for count, block in blocks(data, len(head)):
        body = unpack(block, left)
        if count > len(body):
            # No row that is read here is without a byte, and a decoder would make as many as are claimed.
            raise ValueError(f"a block of {len(body)} bytes that claims {count} rows")
        if body and not count:
            # Nobody would decode it, nor find that its count is damaged.
            raise ValueError(f"a block of {len(body)} bytes that claims no row")
        bodies.append(body)
        left -= len(body)
        sizes.append((count, len(body)))
    rows = sum(count for count, _ in sizes)
    return Container(schema, rows, b"".join(bodies), head, codec, doubtful_end(sizes))
