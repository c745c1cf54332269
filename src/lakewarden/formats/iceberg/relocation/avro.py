"""Avro files written anew with some values changed: same schema, same header, same order of records.

Values keep the form in which Avro stores them. Turned into Python's dates and decimals and back, one beyond Python's
range (a partition of the year 20,000) could not be carried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

from lakewarden.model.avro_frames import SYNC_BYTES, headed
from lakewarden.model.avro_frames import header as container_header
from lakewarden.model.errors import IncompleteManifestError

Record = dict[str, Any]

SCHEMA, CODEC = b"avro.schema", b"avro.codec"
KEPT_CODECS = (b"null", b"deflate")


def rewrite(data: bytes, uri: str, change: Callable[[Sequence[Record]], None]) -> bytes:
    """The file after `change` worked on its records in place. Raises IncompleteManifestError for a damaged file."""
    import fastavro

    header, sync, plain, records = _opened(data, uri)
    change(records)
    codec = header.get(CODEC, b"null")
    codec = codec if codec in KEPT_CODECS else b"deflate"
    out = BytesIO()
    fastavro.writer(out, plain, records, codec=codec.decode(), sync_marker=sync)
    written = out.getvalue()
    _, end = container_header(written)
    return headed({**header, CODEC: codec}, sync) + written[end + SYNC_BYTES :]


def records_of(data: bytes, uri: str) -> list[Record]:
    """Every record of a file. Raises IncompleteManifestError for a damaged one."""
    return _opened(data, uri)[3]


def _opened(data: bytes, uri: str) -> tuple[dict[bytes, bytes], bytes, Any, list[Record]]:
    """Header, sync marker, schema without logical types, records."""
    import fastavro

    try:
        header, at = container_header(data)
        sync, body = data[at : at + SYNC_BYTES], data[at + SYNC_BYTES :]
        plain = _without_logic(json.loads(header[SCHEMA]))
        read: Any = fastavro.reader(BytesIO(headed({**header, SCHEMA: json.dumps(plain).encode()}, sync) + body))
        return header, sync, plain, list(read)
    except Exception as error:  # whatever a damaged file makes the decoder raise, the table is left alone
        raise IncompleteManifestError(f"{uri} cannot be read ({type(error).__name__}: {error})") from error


def header_of(data: bytes, uri: str) -> dict[bytes, bytes]:
    """What a container says of itself. Raises IncompleteManifestError."""
    try:
        return container_header(data)[0]
    except (LookupError, ValueError) as error:
        raise IncompleteManifestError(f"{uri} is not an Avro file ({error})") from error


def _without_logic(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logic(option) for option in schema]
    if isinstance(schema, dict):
        return {key: _without_logic(value) for key, value in schema.items() if key != "logicalType"}
    return schema
