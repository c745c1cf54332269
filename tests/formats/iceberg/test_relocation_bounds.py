"""Delete files that others wrote, at a new place: damaged or endless ones are refused by name, in little time and memory."""

from __future__ import annotations

import json
from contextlib import suppress
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.formats.avro import AvroFile, write_avro
from lakewarden.formats.iceberg.relocation import deletes
from lakewarden.formats.iceberg.relocation.addresses import relocate_list, relocate_manifest
from lakewarden.formats.iceberg.relocation.deletes import PATH_ID, POSITION_ID, PUFFIN_MAGIC, relocate_deletes
from lakewarden.model.errors import BoundsError, IncompleteManifestError, LakewardenError, UnreadableMetadataError
from lakewarden.model.tiers import Move
from tests.foreign.bounds import within

MOVE = Move("s3://hot/t/", "s3://cold/t-1/")


def puffin(footer: bytes, size: int | None = None) -> bytes:
    length = len(footer) if size is None else size
    return PUFFIN_MAGIC + b"vector" + PUFFIN_MAGIC + footer + length.to_bytes(4, "little") + bytes(4) + PUFFIN_MAGIC


FOOTERS = {
    "no footer": b"",
    "a list": b"[]",
    "no blobs": b"{}",
    "blobs of text": b'{"blobs": "none"}',
    "a blob of text": b'{"blobs": ["x"]}',
    "properties of text": b'{"blobs": [{"properties": "referenced-data-file"}]}',
    "an address of numbers": b'{"blobs": [{"properties": {"referenced-data-file": 5}}]}',
    "an address that is none": b'{"blobs": [{"properties": {"referenced-data-file": "x"}}]}',
}


@pytest.mark.parametrize("case", FOOTERS)
def test_a_footer_that_makes_no_sense_is_refused(case: str) -> None:
    with within(5, 20), pytest.raises((IncompleteManifestError, UnreadableMetadataError), match="s3://hot/t/d"):
        relocate_deletes(puffin(FOOTERS[case]), "s3://hot/t/d.puffin", MOVE)


@pytest.mark.parametrize(
    "footer", [b"[" * 1_000_000, b'{"blobs": ' + b"9" * 100 + b"}", b'{"a": NaN}', b'{"a": 1, "a": 2}']
)
def test_a_footer_beyond_the_bounds_is_refused(footer: bytes) -> None:
    with within(5, 50), pytest.raises(BoundsError):
        relocate_deletes(puffin(footer), "d", MOVE)


@pytest.mark.parametrize("size", [0, 1, 10**6, 2**32 - 1])
def test_a_footer_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(IncompleteManifestError):
        relocate_deletes(puffin(b'{"blobs": []}', size), "d", MOVE)


def position_deletes(rows: int, *more: str) -> bytes:
    """So many rows of one file: dictionaries and run lengths make a few kilobytes of them."""
    fields = [("file_path", pa.string(), PATH_ID), ("pos", pa.int64(), POSITION_ID)]
    schema = pa.schema([pa.field(n, k, metadata={b"PARQUET:field_id": str(i).encode()}) for n, k, i in fields])
    path = f"s3://hot/t/data/{'x' * 500}.parquet"
    paths = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), [path])
    table = pa.table([paths, pa.repeat(pa.scalar(1, pa.int64()), rows)], names=["file_path", "pos"])
    table = table.set_column(0, schema.field(0).with_type(paths.type), paths).set_column(1, schema.field(1), table[1])
    for name in more:
        table = table.append_column(name, pa.repeat("y" * 500, rows).dictionary_encode())
    sink = BytesIO()
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def test_many_rows_of_one_file_are_moved_without_their_addresses_in_full() -> None:
    data = position_deletes(2_000_000)
    assert len(data) < 1_000_000
    before = pa.total_allocated_bytes()
    moved = relocate_deletes(data, "d", MOVE)
    assert moved is not None
    assert pa.default_memory_pool().max_memory() - before < 500 << 20, "a gigabyte, if each row had its address"
    found = pq.ParquetFile(BytesIO(moved))
    assert found.metadata.num_rows == 2_000_000
    assert found.schema_arrow.field("file_path").type == pa.string()
    assert next(found.iter_batches(1))["file_path"].to_pylist()[0].startswith("s3://cold/t-1/data/x")


def test_more_rows_than_may_be_held_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletes, "MOST_ROWS", 1000)
    monkeypatch.setattr(deletes, "MOST_WIDE_ROWS", 100)
    assert relocate_deletes(position_deletes(1000), "d", MOVE) is not None
    for data in (position_deletes(1001), position_deletes(101, "row")):
        with pytest.raises(BoundsError, match="more than are written anew"):
            relocate_deletes(data, "s3://hot/d", MOVE)


def test_a_damaged_parquet_file_is_refused_wherever_it_is_damaged() -> None:
    data = position_deletes(100)
    for at in range(0, len(data), 7):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]):
            with within(5, 100), suppress(LakewardenError):
                relocate_deletes(damaged, "d", MOVE)


LIST = {"type": "record", "name": "l", "fields": [{"name": "other", "type": "string"}]}
ENTRY = {"type": "record", "name": "e", "fields": [{"name": "data_file", "type": ["null", "string"]}]}


@pytest.mark.parametrize(
    ("schema", "record"), [(LIST, {"other": "x"}), (ENTRY, {"data_file": None}), (ENTRY, {"data_file": "x"})]
)
def test_records_of_another_kind_are_refused(schema: dict[str, Any], record: dict[str, Any]) -> None:
    data = write_avro(AvroFile(schema, "null", (record,)))
    for relocate in (relocate_list, relocate_manifest):
        with pytest.raises(IncompleteManifestError, match="lacks or garbles"):
            relocate(data, "m", MOVE, lambda uris: {})


@pytest.mark.parametrize(
    "schema", [b"[]", b"7", b'{"fields": 5}', b'{"fields": [5]}', b"[" * 100_000, json.dumps({"fields": [{}]}).encode()]
)
def test_a_schema_of_another_kind_is_refused(schema: bytes) -> None:
    from lakewarden.model.avro_frames import headed

    with pytest.raises(IncompleteManifestError):
        relocate_deletes(headed({b"avro.schema": schema}, b"0" * 16), "d", MOVE)
