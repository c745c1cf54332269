"""Files made to mislead: refused by name, within bounded memory, and never as a failure of somebody else."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from lakewarden.formats.iceberg.data import row_groups
from lakewarden.formats.iceberg.data.deletes import vector_positions
from lakewarden.formats.iceberg.data.foreign_footer import LARGEST, TRAILER
from lakewarden.formats.iceberg.data.order import COPIED, ENCODED
from lakewarden.formats.iceberg.data.pages import PageWalk
from lakewarden.formats.iceberg.data.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    GarbledError,
    Items,
    dumps,
    loads,
)
from lakewarden.model.errors import IncompleteManifestError
from tests.formats.iceberg.data.copying import Group, rows_in, schema_of
from tests.support.lakes import local_path

COLUMNS = schema_of(("n", "long"), ("t", "string"))


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr(row_groups, "LEAST_AVERAGE", 0)
    found = Group(tmp_path, COLUMNS)
    for start in (0, 300):
        rows = [{"n": n, "t": str(n)} for n in range(start, start + 300)]
        found.write(rows, row_group_size=100, write_page_index=True)
    return found


def change(group: Group, by: Callable[[Any], None]) -> None:
    """Change the footer of a group's first file."""
    path = local_path(group.inputs[0].path)
    data = path.read_bytes()
    start = len(data) - TRAILER - int.from_bytes(data[-TRAILER:-4], "little")
    footer, _ = loads(data[start:-TRAILER])
    by(footer)
    new = dumps(footer)
    path.write_bytes(data[:start] + new + len(new).to_bytes(4, "little") + b"PAR1")
    group.inputs[0] = replace(group.inputs[0], size=path.stat().st_size)


def first_chunk(footer: Any) -> Any:
    return footer[4].value.values[0][1].value.values[0]


def chunk_that_is_bytes(footer: Any) -> None:
    first_chunk(footer)[3] = Field(BINARY, b"x")


def type_of_nothing(footer: Any) -> None:
    footer[2].value.values[2][10] = Field(STRUCT, {})


def names_that_are_numbers(footer: Any) -> None:
    first_chunk(footer)[3].value[3] = Field(LIST, Items(I32, [1]))


def row_group_of_bytes(footer: Any) -> None:
    footer[4] = Field(LIST, Items(BINARY, [b"x"]))


def pairs_of_bytes(footer: Any) -> None:
    footer[5] = Field(LIST, Items(BINARY, [b"x"]))


def rows_that_are_missing(footer: Any) -> None:
    footer[4].value.values[0][3] = Field(I64, -100)
    footer[4].value.values[1][3] = Field(I64, 300)


def chunks_that_are_exchanged(footer: Any) -> None:
    """A column's values of two row groups; over both, there are as many as there should be."""
    first, second = (found[1].value.values for found in footer[4].value.values)
    first[1], second[1] = second[1], first[1]


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("honest", [True, False])
def test_values_of_different_rows_do_not_become_one_row(group: Group, encoded: bool, honest: bool) -> None:
    """Whether the footer says so, or only the pages have other values than it says."""
    group.inputs.clear()
    group.write([{"n": n, "t": str(n)} for n in range(100)], row_group_size=60)

    def exchange(footer: Any) -> None:
        chunks_that_are_exchanged(footer)
        for found in [] if honest else footer[4].value.values:
            found[1].value.values[1][3].value[5] = found[3]

    change(group, exchange)
    result = group.encoded() if encoded else group.rewritten()
    assert (result.code, result.files) == ("LW-TABLE-002", ())


@pytest.mark.parametrize(
    "how",
    [chunk_that_is_bytes, type_of_nothing, names_that_are_numbers, row_group_of_bytes, pairs_of_bytes, rows_that_are_missing],
)  # fmt: skip
def test_a_footer_of_other_things_than_it_should_have_is_told(group: Group, how: Callable[[Any], None]) -> None:
    change(group, how)
    result = group.rewritten()
    assert result.code == "LW-TABLE-002"
    assert not [one for one in group.base.iterdir() if one.name.startswith("out")]


@pytest.mark.parametrize("more", [-9, -1, 1, 1000, 10**12])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_file_of_another_length_than_its_manifest_says_is_told(group: Group, more: int, encoded: bool) -> None:
    """Readers find the footer by the manifest's word, so nobody reads such a file; what lies in it is anybody's guess."""
    group.inputs[0] = replace(group.inputs[0], size=group.inputs[0].size + more)
    result = group.encoded() if encoded else group.rewritten()
    assert result.code == "LW-TABLE-002", result


@pytest.mark.parametrize("encoded", [False, True])
def test_of_a_file_that_goes_on_the_part_is_read_that_readers_read(group: Group, encoded: bool) -> None:
    first, second = (local_path(one.path) for one in group.inputs)
    rows = group.rows()
    with first.open("ab") as file:
        file.write(second.read_bytes())
    result = group.encoded() if encoded else group.rewritten()
    assert (result.code, result.way) == (None, ENCODED if encoded else COPIED)
    assert rows_in(result) == rows


def test_a_page_whose_header_has_no_end_takes_bounded_memory() -> None:
    """A header of four megabytes: a list of empty structs, in a field that nobody knows."""
    count = 1 << 22
    header = dumps({1: Field(I32, 0), 3: Field(I32, 0), 5: Field(STRUCT, {1: Field(I32, 1)})})[:-1]
    data = header + bytes([0x49, 0xFC, 0x80, 0x80, 0x80, 0x02]) + bytes(count + 1)
    tracemalloc.start()
    try:
        with pytest.raises(GarbledError):
            PageWalk(1).take(data)
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()


def test_indexes_that_are_the_same_bytes_are_not_copied_many_times(group: Group) -> None:
    path = local_path(group.inputs[0].path)
    path.write_bytes(path.read_bytes()[:4] + bytes(LARGEST) + path.read_bytes()[4:])

    def everywhere(footer: Any) -> None:
        for chunk in (chunk for found in footer[4].value.values for chunk in found[1].value.values):
            for place in (9, 11):
                if place in chunk[3].value:
                    chunk[3].value[place] = Field(I64, chunk[3].value[place].value + LARGEST)
            chunk |= {4: Field(I64, 4), 5: Field(I32, LARGEST), 6: Field(I64, 4), 7: Field(I32, LARGEST)}

    change(group, everywhere)
    result = group.rewritten()
    assert (result.code, result.way) == (None, ENCODED)
    assert "upon each other" in result.why


def test_a_page_that_cannot_be_unpacked_is_no_failure_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_groups, "LEAST_AVERAGE", 0)
    group = Group(tmp_path, schema_of(("d", "double")))
    path = group.write([{"d": n / 7} for n in range(5000)], use_dictionary=False)
    data = bytearray(path.read_bytes())
    frame = data.index(b"\x28\xb5\x2f\xfd")
    data[frame : frame + 4] = bytes(4)
    path.write_bytes(data)
    result = group.rewritten()
    assert result.code == "LW-TABLE-002", result.message
    assert "writing" not in str(result.message)


def test_a_vector_of_many_positions_is_counted_before_it_is_spelled_out() -> None:
    bitmap = BitMap64()
    bitmap.add_range(0, 1 << 24)
    bitmap.run_optimize()
    body = bytes.fromhex("d1d33964") + bitmap.serialize()
    blob = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    tracemalloc.start()
    try:
        with pytest.raises(IncompleteManifestError, match=f"has {1 << 24} positions and should have 3"):
            vector_positions(blob, 3, "v")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
