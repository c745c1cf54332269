"""Small files made to mislead those who read them together: they are read as each is by itself, within bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.formats.iceberg.data import pages, together
from lakewarden.formats.iceberg.data.columns import arrow_schema
from lakewarden.formats.iceberg.data.foreign_footer import (
    CHUNKS,
    DATA_AT,
    DICTIONARY_AT,
    GROUPS,
    META,
    ORDERS,
    PACKED,
    TRAILER,
    TYPE,
)
from lakewarden.formats.iceberg.data.thrift import I32, I64, LIST, STRUCT, Field, Items, Struct, dumps, loads
from tests.formats.iceberg.data.copying import Group, schema_of
from tests.formats.iceberg.data.test_together import FILES, apart, outcome, read, written
from tests.support.lakes import local_path

BYTE_STREAM_SPLIT = 9
LONGS = schema_of(("n", "long"))


def with_footer(data: bytes, change: Callable[[list[Struct]], None]) -> bytes:
    """The file after its column chunks' metadata was changed."""
    start = len(data) - TRAILER - int.from_bytes(data[-TRAILER:-4], "little")
    footer, _ = loads(data[start:-TRAILER])
    change([chunk[META].value for chunk in footer[GROUPS].value.values[0][CHUNKS].value.values])
    new = dumps(footer)
    return data[:start] + new + len(new).to_bytes(4, "little") + b"PAR1"


def with_headers(data: bytes, change: Callable[[Struct], None]) -> bytes:
    """A file of one column, after the headers of its pages were changed."""
    body = bytearray(b"PAR1")

    def moved(chunks: list[Struct]) -> None:
        (meta,) = chunks
        assert DICTIONARY_AT not in meta
        at, end = meta[DATA_AT].value, meta[DATA_AT].value + meta[PACKED].value
        while at < end:
            header, at = loads(data, at)
            packed = header[pages.PACKED].value
            change(header)
            body.extend(dumps(header) + data[at : at + packed])
            at += packed
        meta[DATA_AT] = Field(I64, 4)
        meta[PACKED] = Field(I64, len(body) - 4)

    end = with_footer(data, moved)
    return bytes(body) + end[-TRAILER - int.from_bytes(end[-TRAILER:-4], "little") :]


def test_a_header_that_tells_of_two_kinds_of_pages_is_believed_of_its_own() -> None:
    """The other kind's encoding has as many bytes, and would make other numbers of them."""

    def two_kinds(header: Struct) -> None:
        rows = header[pages.DATA].value[1]
        header[pages.DICTIONARY] = Field(STRUCT, {1: rows, 2: Field(I32, BYTE_STREAM_SPLIT)})

    table = pa.table([pa.array(range(30), pa.int64())], schema=arrow_schema(LONGS))
    good = written(table, compression="none", use_dictionary=False)
    files = [with_headers(good, two_kinds)] * FILES
    found, _ = read(files, [30] * FILES, LONGS)
    assert found == apart(files, [30] * FILES, LONGS) == [table.to_pylist()] * FILES


def test_columns_that_lie_in_the_same_place_take_no_part() -> None:
    """Each would have the pages of all."""
    columns = schema_of(*((f"c{n}", "long") for n in range(40)))
    values = pa.array(range(200), pa.int64())
    table = pa.table([values] * 40, schema=arrow_schema(columns))
    good = written(table, compression="none", use_dictionary=False, data_page_size=64)

    def same_place(chunks: list[Struct]) -> None:
        for meta in chunks:
            meta |= {DATA_AT: chunks[0][DATA_AT], PACKED: Field(I64, 3 * chunks[0][PACKED].value // 3)}

    files = [_less_body(with_footer(good, same_place))] * FILES
    found, joined = read(files, [200] * FILES, columns)
    assert joined == 0
    assert found == apart(files, [200] * FILES, columns)


def _less_body(data: bytes) -> bytes:
    """Without the bytes that no column is said to have any more."""
    start = len(data) - TRAILER - int.from_bytes(data[-TRAILER:-4], "little")
    footer, _ = loads(data[start:-TRAILER])
    meta = footer[GROUPS].value.values[0][CHUNKS].value.values[0][META].value
    return data[: meta[DATA_AT].value + meta[PACKED].value] + data[start:]


@pytest.mark.parametrize("kind", ["texts", "nulls"])
def test_what_is_much_larger_once_it_is_decoded_is_read_file_by_file(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A text that a dictionary has once, for every row; nulls of many columns."""
    monkeypatch.setattr(together, "MOST_BYTES", 1 << 20)
    columns = schema_of(("t", "string")) if kind == "texts" else schema_of(*((f"c{n}", "long") for n in range(100)))
    values: Any = ["x" * 1000] * 1000 if kind == "texts" else [None] * 1000
    schema = arrow_schema(columns)
    table = pa.table([pa.array(values, field.type) for field in schema], schema=schema)
    files = [written(table)] * FILES
    assert sum(map(len, files)) < 1 << 20
    found, joined = read(files, [1000] * FILES, columns)
    assert joined == 0
    assert found == apart(files, [1000] * FILES, columns)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    group = Group(tmp_path, LONGS)
    for _ in range(FILES):
        group.write([{"n": n} for n in range(30)], write_page_checksum=True)
    bad = local_path(group.inputs[5].path)
    data = bytearray(bad.read_bytes())
    data[40] ^= 1
    bad.write_bytes(data)
    result = group.rewritten()
    assert result.code is not None
    assert result.message is not None
    assert str(bad) in result.message


def _other_type(data: bytes) -> bytes:
    def change(chunks: list[Struct]) -> None:
        chunks[0][TYPE] = Field(I32, 1)

    return with_footer(data, change)


def _wide_checksum(data: bytes) -> bytes:
    def change(header: Struct) -> None:
        header[pages.CHECKSUM] = Field(I32, header[pages.CHECKSUM].value + (1 << 32))

    return with_headers(data, change)


def _few_orders(data: bytes) -> bytes:
    start = len(data) - TRAILER - int.from_bytes(data[-TRAILER:-4], "little")
    footer, _ = loads(data[start:-TRAILER])
    footer[ORDERS] = Field(LIST, Items(STRUCT, []))
    new = dumps(footer)
    return data[:start] + new + len(new).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize(("lie", "found"), [(_other_type, False), (_few_orders, True), (_wide_checksum, False)])
def test_a_lie_that_all_files_share_is_taken_as_in_each(lie: Callable[[bytes], bytes], found: bool) -> None:
    """Arrow goes by the schema for a type, and by as many bits of a checksum as there are."""
    table = pa.table([pa.array(range(30), pa.int64())], schema=arrow_schema(LONGS))
    good = written(table, compression="none", use_dictionary=False, write_page_checksum=True)
    files = [lie(good)] * FILES
    alone = outcome(lambda: apart(files, [30] * FILES, LONGS))
    assert ("file:///0 cannot be read" in alone) is found
    assert outcome(lambda: read(files, [30] * FILES, LONGS)[0]) == alone


def test_a_page_of_nothing_is_looked_at_too() -> None:
    """The dictionary of a column of nulls has no bytes, and those that say so may be damaged."""
    table = pa.table([pa.array([None] * 30, pa.int64())], schema=arrow_schema(LONGS))
    good = written(table)
    at = good.index(bytes.fromhex("28b52ffd2000010000"))
    bad = good[: at + 7] + b"\x04" + good[at + 8 :]
    files = [good] * (FILES - 1) + [bad]
    alone = outcome(lambda: apart(files, [30] * FILES, LONGS))
    assert f"file:///{FILES - 1} cannot be read" in alone
    assert outcome(lambda: read(files, [30] * FILES, LONGS)[0]) == alone
