"""Delete files at a new place: position deletes and deletion vectors name data files by address, inside the file.

Readers match those names with the data files' own addresses. A delete file that is only copied would delete nothing,
and its rows would come back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakewarden.formats.avro import SCHEMA, Record, header_of, rewrite_avro
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError
from lakewarden.model.tiers import Move

# The specification's reserved field ids of a position delete: the data file's address, and the row in it.
PATH_ID, POSITION_ID = 2147483546, 2147483545
PATH, POSITION = "file_path", "pos"
FIELD_ID = b"PARQUET:field_id"
PUFFIN_MAGIC = b"PFA1"
REFERENCED = "referenced-data-file"


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
        table = file.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IncompleteManifestError(f"the delete file {uri} cannot be read ({error})") from error
    path, position = columns
    place = table.schema.get_field_index(path)
    column = table.column(place).combine_chunks().dictionary_encode()
    addresses = pa.array([move(address) for address in column.dictionary.to_pylist()], pa.string())
    moved = addresses.take(column.indices).cast(table.schema.field(place).type)
    table = table.set_column(place, table.schema.field(place), moved)
    # The specification has them in this order, and addresses sort differently at a new place.
    table = table.sort_by([(path, "ascending"), (position, "ascending")])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def _avro(data: bytes, uri: str, move: Move) -> bytes | None:
    fields = json.loads(header_of(data, uri)[SCHEMA]).get("fields", [])
    columns = _position_columns({field["name"]: field.get("field-id", 0) for field in fields}, uri)
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
        footer: Record = json.loads(data[start:-12])
    except (ValueError, IndexError) as error:
        raise IncompleteManifestError(f"the deletion vectors {uri} cannot be read ({error})") from error
    named = [blob["properties"] for blob in footer["blobs"] if REFERENCED in (blob.get("properties") or {})]
    if not named:
        return None
    for properties in named:
        properties[REFERENCED] = move(properties[REFERENCED])
    text = json.dumps(footer, separators=(",", ":"), ensure_ascii=False).encode()
    return data[:start] + text + len(text).to_bytes(4, "little") + flags + PUFFIN_MAGIC
