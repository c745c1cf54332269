"""Avro files as records, for every format: read whole or not at all, and written back in the form of their writer.

Records keep the fields of the writer that made them: what this version does not know must survive when a record moves to
a new file. fastavro skips a block whose count is damaged and says nothing, so the container's frames are counted first,
for every file and every reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from lakewarden.foreign.avro_ending import doubtful_end
from lakewarden.foreign.avro_schema import read_schema
from lakewarden.foreign.codecs import most_unpacked, unpacker
from lakewarden.foreign.unpack import TooMuchError
from lakewarden.model.avro_frames import SYNC_BYTES, blocks, headed, header
from lakewarden.model.errors import BoundsError, IncompleteManifestError, UnsupportedTableError

Record = dict[str, Any]

SCHEMA, CODEC = b"avro.schema", b"avro.codec"
KEPT_CODECS = ("null", "deflate")
MOST_RECORDS = 2_000_000  # of a file of which nobody said how many it has


@dataclass(frozen=True, slots=True)
class AvroFile:
    """The records of one file, with the schema, codec and header of the writer that made it."""

    schema: Record
    codec: str
    records: tuple[Record, ...]
    header: Mapping[str, str] = field(default_factory=dict)
    doubt: str = field(default="", compare=False)  # why whole blocks may be lost at its end, in words

    @property
    def shape(self) -> str:
        """The schema as text, to tell files of one shape from others."""
        return json.dumps(self.schema, sort_keys=True)


def read_avro(
    data: bytes, uri: str, size: int | None = None, rows: int | None = None, *, as_stored: bool = False
) -> AvroFile:
    """Every record. Raises IncompleteManifestError unless bytes, frames and rows are as many as was said, BoundsError for
    a file that holds more than one of its size honestly can.

    `as_stored` keeps values in the form in which Avro stores them. Turned into Python's dates and decimals and back, one
    beyond Python's range (a partition of the year 20,000) could not be carried.
    """
    if size is not None and len(data) != size:
        raise IncompleteManifestError(f"{uri} has {len(data)} bytes and should have {size}")
    try:
        meta, at = header(data)
        read_schema(meta[SCHEMA])
        # A schema of its own for each file, since records are changed together with it. To read it again is cheaper than to copy.
        schema = json.loads(meta[SCHEMA])
        schema = _without_logic(schema) if as_stored else schema
        codec = meta.get(CODEC, b"null").decode()
        bodies = list(_unpacked(data, at, codec, rows))
        framed = sum(count for count, _ in bodies)
        records = tuple(_records(bodies, schema))
        said = {key.decode(): value.decode() for key, value in meta.items() if not key.startswith(b"avro.")}
    except TooMuchError as error:
        raise BoundsError(f"{uri} is beyond what is read of one file ({error}); nothing was changed") from error
    except Exception as error:  # whatever a damaged file makes the decoder raise, the table is refused
        raise IncompleteManifestError(f"{uri} cannot be read ({type(error).__name__}: {error})") from error
    if len(records) != framed or (rows is not None and len(records) != rows):
        raise IncompleteManifestError(
            f"{uri} has {len(records)} rows and should have {framed if rows is None else rows}"
        )
    return AvroFile(schema, codec, records, said, doubtful_end([(count, len(body)) for count, body in bodies]))


def write_avro(file: AvroFile, sync: bytes | None = None) -> bytes:
    """The bytes of a file. Raises UnsupportedTableError where the schema asks for what nobody can fill in."""
    import fastavro

    out = BytesIO()
    marker: Any = sync  # None: fastavro makes one up
    try:
        fastavro.writer(
            out, file.schema, file.records, codec=file.codec, metadata=dict(file.header), sync_marker=marker
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise UnsupportedTableError(
            f"a manifest cannot be written in the form that this table uses ({error}); nothing was changed"
        ) from error
    return out.getvalue()


def rewrite_avro(data: bytes, uri: str, change: Callable[[list[Record]], None]) -> bytes:
    """The file after `change` worked on its records in place: same schema, same header, same sync marker.

    Raises IncompleteManifestError for a damaged file.
    """
    file = read_avro(data, uri, as_stored=True)
    records = list(file.records)
    try:
        change(records)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise IncompleteManifestError(
            f"{uri} lacks or garbles a field ({type(error).__name__}: {error}); it was not written anew"
        ) from error
    meta, at = header(data)
    sync = data[at : at + SYNC_BYTES]
    codec = file.codec if file.codec in KEPT_CODECS else "deflate"
    written = write_avro(AvroFile(file.schema, codec, tuple(records)), sync)
    _, end = header(written)
    return headed({**meta, CODEC: codec.encode()}, sync) + written[end + SYNC_BYTES :]


def header_of(data: bytes, uri: str) -> dict[bytes, bytes]:
    """What a container says of itself. Raises IncompleteManifestError."""
    try:
        return header(data)[0]
    except (LookupError, ValueError) as error:
        raise IncompleteManifestError(f"{uri} is not an Avro file ({error})") from error


def _unpacked(data: bytes, at: int, codec: str, rows: int | None) -> Iterator[tuple[int, bytes]]:
    """How many rows each block says it has, and its bytes, unpacked.

    Raises ValueError and its like for a damaged file, TooMuchError beyond the bounds. fastavro unpacks whatever it is
    given, and makes as many records as a block claims; both are held in memory.
    """
    unpack, left = unpacker(codec.encode()), most_unpacked(len(data))
    framed = 0
    for count, block in blocks(data, at):
        framed += count
        body = unpack(block, left)
        if count > len(body) or framed > (MOST_RECORDS if rows is None else rows):
            raise ValueError(f"{framed} rows are claimed")
        left -= len(body)
        yield count, body


def _records(bodies: Iterable[tuple[int, bytes]], schema: Record) -> Iterator[Record]:
    """Every record. Raises ValueError where a block has bytes left behind the last: its count is damaged, and fastavro's
    own reader of files would lose the rest without a word."""
    import fastavro

    parsed = fastavro.parse_schema(schema)
    for count, body in bodies:
        stream = BytesIO(body)
        for _ in range(count):
            found: Any = fastavro.schemaless_reader(stream, parsed, None)
            yield found
        if stream.tell() != len(body):
            raise ValueError(f"{len(body) - stream.tell()} bytes are left behind the {count} rows of a block")


def _without_logic(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logic(option) for option in schema]
    if isinstance(schema, dict):
        return {key: _without_logic(value) for key, value in schema.items() if key != "logicalType"}
    return schema
