"""Footers are foreign bytes: whatever they are, they are read or refused, quickly and by name, and never copied wrongly."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data import row_groups
from lakewarden.formats.iceberg.data.foreign_footer import LARGEST, TRAILER, NotCopiedError, parse_footer
from lakewarden.formats.iceberg.data.pages import PageWalk
from lakewarden.formats.iceberg.data.parquet_schema import elements_of
from lakewarden.formats.iceberg.data.thrift import GarbledError, dumps, loads
from tests.formats.iceberg.data.copying import Group, rows_in, schema_of

COLUMNS = schema_of(("n", "long"), ("t", "string"), ("d", "decimal(9, 2)"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    group = Group(tmp_path_factory.mktemp("footers"), COLUMNS)
    rows = [{"n": n, "t": str(n), "d": None} for n in range(300)]
    return group.write(rows, row_group_size=100, write_page_index=True, write_page_checksum=True).read_bytes()


def footer_bytes(file: bytes) -> bytes:
    length = int.from_bytes(file[-TRAILER:-4], "little")
    return file[-TRAILER - length : -TRAILER]


def test_a_footer_is_written_as_it_was_read(file: bytes) -> None:
    data = footer_bytes(file)
    found, end = loads(data)
    assert end == len(data)
    assert dumps(found) == data


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_struct_or_garbled(data: bytes) -> None:
    try:
        found, end = loads(data)
    except GarbledError:
        return
    assert end <= len(data)
    assert loads(dumps(found))[0] == found


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_footer_is_read_or_refused_by_name(file: bytes, seed: int) -> None:
    chance = random.Random(seed)
    whole = footer_bytes(file)
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        try:
            found = parse_footer(bytes(data), len(file))
            elements_of(found.schema)
        except NotCopiedError:
            continue
        for group in found.groups:
            for chunk in group.chunks:
                assert 4 <= chunk.start <= chunk.start + chunk.length <= len(file) - TRAILER - len(data)


@pytest.mark.parametrize("seed", range(60))
def test_a_file_with_a_changed_footer_gives_its_rows_or_nothing(
    file: bytes, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Arrow reads the changed file, the new one has the rows that it reads; else nothing is rewritten."""
    monkeypatch.setattr(row_groups, "LEAST_AVERAGE", 0)
    chance = random.Random(seed)
    begin = len(file) - TRAILER - len(footer_bytes(file))
    data = bytearray(file)
    data[chance.randrange(begin, len(file) - TRAILER)] ^= 1 << chance.randrange(8)
    path = tmp_path / "changed.parquet"
    path.write_bytes(data)
    group = Group(tmp_path, COLUMNS)
    group.add(path, 300)
    result = group.rewritten()
    try:
        pq.read_table(path, schema=None).validate(full=True)
    except Exception:
        # Nobody reads its rows, before or after.
        return
    if result.code is None:
        assert rows_in(result) == group.rows()


def test_lists_and_structs_take_no_more_than_their_bytes() -> None:
    """The worst bytes: a list of empty structs, and structs within structs without an end."""
    deep = bytes([0x1C]) * LARGEST
    with pytest.raises(GarbledError, match="deep"):
        loads(deep)
    with pytest.raises(GarbledError):
        loads(bytes([0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]) + bytes(100))
    wide = bytes([0x19, 0xFC, 0x80, 0x80, 0x40]) + bytes(1 << 20) + bytes(1)
    tracemalloc.start()
    found, _ = loads(wide)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found[1].value.values) == 1 << 20
    assert peak < 200 << 20


@pytest.mark.parametrize("step", [1, 13, 1 << 30])
def test_pages_are_counted_however_their_bytes_come(file: bytes, step: int) -> None:
    found = parse_footer(footer_bytes(file), len(file))
    for chunk in (chunk for group in found.groups for chunk in group.chunks):
        data = file[chunk.start : chunk.start + chunk.length]
        walk = PageWalk(chunk.values)
        for at in range(0, len(data), step):
            walk.take(data[at : at + step])
        walk.close()
        short = PageWalk(chunk.values)
        short.take(data[:-1])
        with pytest.raises(GarbledError):
            short.close()
