"""Delete files at a new place: position deletes and deletion vectors name data files by address, inside the file.

Readers match those names with the data files' own addresses. A delete file that is only copied would delete nothing,
and its rows would come back.
"""

from __future__ import annotations

import json
from typing import Any

from lakewarden.formats.iceberg.relocation_avro import SCHEMA, Record, header_of, rewrite
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError
from lakewarden.model.tiers import Move

# The specification's reserved field ids of a position delete: the data file's address, and the row in it.
PATH_ID, POSITION_ID = 2147483546, 2147483545
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
        names = {int((field.metadata or {}).get(FIELD_ID, 0)): field.name for field in file.schema_arrow}
        if PATH_ID not in names:
            return None
        table = file.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IncompleteManifestError(f"the delete file {uri} cannot be read ({error})") from error
    path, position = names[PATH_ID], names[POSITION_ID]
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
    name = next((field["name"] for field in fields if field.get("field-id") == PATH_ID), None)
    if name is None:
        return None

    def change(records: Any) -> None:
        for record in records:
            record[name] = move(record[name])
        records.sort(key=lambda record: (record[name], record["pos"]))

    return rewrite(data, uri, change)


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
