"""Delete files at a new place: position deletes and deletion vectors name data files by address, inside the file.

Readers match those names with the data files' own addresses. A delete file that is only copied would delete nothing,
and its rows would come back.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from lakewarden.foreign.avro_schema import read_schema
from lakewarden.foreign.json_text import read_object
from lakewarden.formats.avro import SCHEMA, header_of, rewrite_avro
from lakewarden.model.errors import (
    BoundsError,
    IncompleteManifestError,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.tiers import Move

# The specification's reserved field ids of a position delete: the data file's address, and the row in it.
PATH_ID, POSITION_ID = 2147483546, 2147483545
PATH, POSITION = "file_path", "pos"
FIELD_ID = b"PARQUET:field_id"
PUFFIN_MAGIC = b"PFA1"
REFERENCED = "referenced-data-file"
# What is written anew of one file of position deletes; those with the deleted rows themselves are held in full.
MOST_ROWS, MOST_WIDE_ROWS, MOST_BYTES = 50_000_000, 5_000_000, 1 << 30


def relocate_deletes(data: bytes, uri: str, move: Move) -> bytes | None:
    """The delete file with the new addresses in it; None if it names no data file, and a copy serves."""
    if data.startswith(PUFFIN_MAGIC):
        return _puffin(data, uri, move)
    if data.startswith(b"PAR1"):
        return _parquet(data, uri, move)
    if data.startswith(b"Obj\x01"):
        return _avro(data, uri, move)
    raise UnsupportedTableError(
        f"the delete file {uri} is neither Parquet, Avro nor Puffin, so the addresses in it cannot be moved"
    )


def _parquet(data: bytes, uri: str, move: Move) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # On this thread alone: a reader's threads that outlive a short command abort it at exit.
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        ids = {field.name: int((field.metadata or {}).get(FIELD_ID, 0)) for field in file.schema_arrow}
        columns = _position_columns(ids, uri)
        if columns is None:
            return None
        _check_size(file.metadata, len(file.schema_arrow), uri)
        # One address stands for many rows. Each in full, they would be a hundred times the file.
        packed = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, read_dictionary=[columns[0]])
        table = packed.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        raise IncompleteManifestError(f"the delete file {uri} cannot be read ({error})") from error
    path, position = columns
    place = table.schema.get_field_index(path)
    column = table.column(place).unify_dictionaries().combine_chunks()
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    addresses = [move(address) for address in column.dictionary.to_pylist()]
    # The specification has them in this order, and addresses sort differently at a new place.
    ordered = sorted(set(addresses))
    ranks = pa.array([bisect_left(ordered, address) for address in addresses], pa.int32()).take(column.indices)
    table = table.set_column(place, path, ranks).sort_by([(path, "ascending"), (position, "ascending")])
    moved = pa.DictionaryArray.from_arrays(table.column(place).combine_chunks(), pa.array(ordered, pa.string()))
    field = file.schema_arrow.field(path)
    table = table.set_column(place, field.with_type(moved.type), moved)
    sink = pa.BufferOutputStream()
    # Without Arrow's own schema, which would have readers make dictionaries of the column; what else was said is kept.
    with pq.ParquetWriter(sink, table.schema, compression="zstd", write_page_checksum=True, store_schema=False) as out:
        out.write_table(table)
        out.add_key_value_metadata({key: value for key, value in (table.schema.metadata or {}).items()})
    return bytes(sink.getvalue().to_pybytes())


def _check_size(told: Any, columns: int, uri: str) -> None:
    """Raise BoundsError for a file that is too large to be written anew: a few bytes can stand for as many rows as they say."""
    size = sum(told.row_group(group).total_byte_size for group in range(told.num_row_groups))
    rows = MOST_ROWS if columns == len((PATH, POSITION)) else MOST_WIDE_ROWS
    if told.num_rows > rows or size > MOST_BYTES:
        raise BoundsError(
            f"the delete file {uri} has {told.num_rows:,} rows in {size:,} bytes, more than are written anew "
            f"({rows:,} in {MOST_BYTES:,}); it was not copied, nor the snapshots that need it"
        )


def _avro(data: bytes, uri: str, move: Move) -> bytes | None:
    try:
        fields = read_schema(header_of(data, uri)[SCHEMA]).get("fields", [])
        ids = {str(field["name"]): int(field.get("field-id", 0)) for field in fields}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, UnreadableMetadataError) as error:
        raise IncompleteManifestError(f"the delete file {uri} cannot be read ({error})") from error
    columns = _position_columns(ids, uri)
    if columns is None:
        return None
    name, position = columns

    def change(records: Any) -> None:
        for record in records:
            record[name] = move(record[name])
        records.sort(key=lambda record: (record[name], record[position]))

    return rewrite_avro(data, uri, change)


def _position_columns(ids: Mapping[str, int], uri: str) -> tuple[str, str] | None:
    """The columns of address and row in a position delete, by field id; None for a delete by values.

    Some readers go by the names and not by the ids. A file with the names of a position delete and without their ids may
    as well be a delete by values from a table with such columns: moved or copied, one of the two would be wrong.
    """
    names = {number: name for name, number in ids.items()}
    if PATH_ID in names and POSITION_ID in names:
        return names[PATH_ID], names[POSITION_ID]
    unsure = PATH in ids and POSITION in ids and not (ids[PATH] and ids[POSITION])
    if unsure or PATH_ID in names or POSITION_ID in names:
        raise UnsupportedTableError(
            f"the delete file {uri} looks like position deletes and lacks their field ids, so the addresses in it cannot "
            "be moved; it was not copied, nor the snapshots that need it"
        )
    return None


def _puffin(data: bytes, uri: str, move: Move) -> bytes | None:
    """The vectors stay where they are, byte for byte: manifests give their offsets. Only the footer is written anew."""
    try:
        size = int.from_bytes(data[-12:-8], "little")
        flags, start = data[-8:-4], len(data) - 12 - size
        if data[-4:] != PUFFIN_MAGIC or data[start - 4 : start] != PUFFIN_MAGIC:
            raise ValueError("its footer is not where it should be")
        if any(flags):
            raise UnsupportedTableError(f"the footer of {uri} is compressed, so the addresses in it cannot be moved")
        footer = read_object(data[start:-12], uri)
        named = [blob["properties"] for blob in footer["blobs"] if REFERENCED in (blob.get("properties") or {})]
        for properties in named:
            properties[REFERENCED] = move(properties[REFERENCED])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise IncompleteManifestError(f"the deletion vectors {uri} cannot be read ({error})") from error
    if not named:
        return None
    text = json.dumps(footer, separators=(",", ":"), ensure_ascii=False).encode()
    return data[:start] + text + len(text).to_bytes(4, "little") + flags + PUFFIN_MAGIC
