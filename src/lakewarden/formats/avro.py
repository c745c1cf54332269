"""Avro files as records, for every format: read whole or not at all, and written back in the form of their writer.

Records keep the fields of the writer that made them: what this version does not know must survive when a record moves to
a new file. fastavro skips a block whose count is damaged and says nothing, so the container's frames are counted first,
for every file and every reader.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

from lakewarden.foreign.avro_ending import doubtful_end
from lakewarden.foreign.avro_schema import read_schema
from lakewarden.foreign.codecs import most_unpacked, unpacker
from lakewarden.foreign.unpack import TooMuchError
from lakewarden.model.avro_frames import SYNC_BYTES, blocks, headed, header, long, text
from lakewarden.model.errors import BoundsError, IncompleteManifestError, UnsupportedTableError

Record = dict[str, Any]

SCHEMA, CODEC = b"avro.schema", b"avro.codec"
KEPT_CODECS = ("null", "deflate")
MOST_RECORDS = 2_000_000  # of a file of which nobody said how many it has
FULL_BLOCK = 16_000  # bytes after which a block ends, as fastavro has it


@dataclass(frozen=True, slots=True)
class Stored:
    """Records as they were read, and the bytes of each."""

    records: tuple[Record, ...]
    bodies: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AvroFile:
    """The records of one file, with the schema, codec and header of the writer that made it."""

    schema: Record
    codec: str
    records: tuple[Record, ...]
    header: Mapping[str, str] = field(default_factory=dict)
    doubt: str = field(default="", compare=False)  # why whole blocks may be lost at its end, in words
    stored: Stored | None = field(default=None, compare=False, repr=False)

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
        found = list(_records(bodies, schema))
        said = {key.decode(): value.decode() for key, value in meta.items() if not key.startswith(b"avro.")}
    except TooMuchError as error:
        raise BoundsError(f"{uri} is beyond what is read of one file ({error}); nothing was changed") from error
    except Exception as error:  # whatever a damaged file makes the decoder raise, the table is refused
        raise IncompleteManifestError(f"{uri} cannot be read ({type(error).__name__}: {error})") from error
    if len(found) != framed or (rows is not None and len(found) != rows):
        raise IncompleteManifestError(f"{uri} has {len(found)} rows and should have {framed if rows is None else rows}")
    records = tuple(record for record, _ in found)
    doubt = doubtful_end([(count, len(body)) for count, body in bodies])
    return AvroFile(schema, codec, records, said, doubt, Stored(records, tuple(body for _, body in found)))


def write_avro(file: AvroFile, sync: bytes | None = None) -> bytes:
    """The bytes of a file. Raises UnsupportedTableError where the schema asks for what nobody can fill in."""
    import fastavro

    out = BytesIO()
    marker: Any = sync  # None: fastavro makes one up
    _written(
        fastavro.writer,
        out,
        file.schema,
        file.records,
        codec=file.codec,
        metadata=dict(file.header),
        sync_marker=marker,
    )
    return out.getvalue()


def _written(write: Callable[..., None], *given: Any, **named: Any) -> None:
    try:
        write(*given, **named)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise UnsupportedTableError(
            f"a manifest cannot be written in the form that this table uses ({error}); nothing was changed"
        ) from error


def write_again(old: AvroFile, kept: Sequence[tuple[int, Record]]) -> bytes:
    """The bytes of a file with these of the old one's records, by their places there. Raises as `write_avro` does.

    The last field of an entry of a manifest is nearly all of it. Where nothing in it is new, its bytes are carried over,
    which takes a fraction of the time.
    """
    import fastavro

    whole = replace(old, records=tuple(record for _, record in kept))
    *first, last = old.schema["fields"]
    name, stored = last["name"], old.stored
    # Bytes of other records than these say nothing of these.
    if stored is None or stored.records is not old.records or old.codec not in KEPT_CODECS:
        return write_avro(whole)
    if not all(_unchanged(record.get(name), old.records[place][name]) for place, record in kept):
        return write_avro(whole)
    head: Any = fastavro.parse_schema({**old.schema, "fields": first})

    def rows() -> Iterator[bytes]:
        for place, record in kept:
            body, written = BytesIO(stored.bodies[place]), BytesIO()
            fastavro.schemaless_reader(body, head, None)
            _written(fastavro.schemaless_writer, written, head, record)
            yield written.getvalue() + body.read()

    start = write_avro(replace(whole, records=()))
    return start + b"".join(_framed(rows(), old.codec, start[-SYNC_BYTES:]))


def _unchanged(value: Any, stored: Any) -> bool:
    """Whether a value, or each member of a record, is the one that was read: equal ones may have other bytes, as zeros have."""
    if isinstance(value, dict) and isinstance(stored, dict):
        return value.keys() == stored.keys() and all(value[name] is stored[name] for name in stored)
    return value is stored


def _framed(rows: Iterable[bytes], codec: str, sync: bytes) -> Iterator[bytes]:
    """Rows in blocks, each of which ends with the row that fills it."""
    waiting: list[bytes] = []
    size = 0

    def block() -> bytes:
        body = b"".join(waiting)
        if codec == "deflate":
            packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            body = packer.compress(body) + packer.flush()
        return long(len(waiting)) + text(body) + sync

    for row in rows:
        waiting.append(row)
        size += len(row)
        if size >= FULL_BLOCK:
            yield block()
            waiting, size = [], 0
    if waiting:
        yield block()


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


def _records(bodies: Iterable[tuple[int, bytes]], schema: Record) -> Iterator[tuple[Record, bytes]]:
    """Every record, and its bytes. Raises ValueError where a block has bytes left behind the last: its count is damaged, and fastavro's
    own reader of files would lose the rest without a word."""
    import fastavro

    parsed = fastavro.parse_schema(schema)
    for count, body in bodies:
        stream, end = BytesIO(body), 0
        for _ in range(count):
            found: Any = fastavro.schemaless_reader(stream, parsed, None)
            start, end = end, stream.tell()
            yield found, body[start:end]
        if end != len(body):
            raise ValueError(f"{len(body) - end} bytes are left behind the {count} rows of a block")


def _without_logic(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logic(option) for option in schema]
    if isinstance(schema, dict):
        return {key: _without_logic(value) for key, value in schema.items() if key != "logicalType"}
    return schema
