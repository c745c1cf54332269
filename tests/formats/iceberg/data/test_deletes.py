"""Deleted rows: found exactly, and nothing believed that is not whole."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakewarden.formats.iceberg.data.columns import arrow_schema
from lakewarden.formats.iceberg.data.deletes import EqualityKeys, file_positions, vector_positions
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError

MAGIC = bytes.fromhex("d1d33964")


def vector(positions: list[int]) -> bytes:
    body = MAGIC + BitMap64(positions).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


@given(st.sets(st.integers(0, 2**40), max_size=30))
def test_a_vector_tells_its_positions_in_order(positions: set[int]) -> None:
    found = vector_positions(vector(sorted(positions)), len(positions), "v")
    assert found.tolist() == sorted(positions)


@given(st.binary(max_size=3), st.integers(0, 60), st.integers(1, 255))
def test_a_damaged_vector_is_refused(cut: bytes, place: int, flipped: int) -> None:
    whole = bytearray(vector([1, 5, 70_000]))
    whole[place % len(whole)] ^= flipped
    with pytest.raises(IncompleteManifestError):
        vector_positions(bytes(whole), 3, "v")
    with pytest.raises(IncompleteManifestError):
        vector_positions(vector([1, 5])[: -1 - len(cut)], 2, "v")


def test_a_vector_of_another_count_is_refused() -> None:
    with pytest.raises(IncompleteManifestError, match="has 2 positions and should have 3"):
        vector_positions(vector([1, 5]), 3, "v")


def parquet(**columns: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_positions_are_those_of_the_file_that_is_asked_for() -> None:
    data = parquet(file_path=["a", "b", "a"], pos=[5, 1, 2])
    found = file_positions(data, ["a", "c"], 3, "d")
    assert {name: positions.tolist() for name, positions in found.items()} == {"a": [2, 5], "c": []}


@pytest.mark.parametrize("rows", [2, 4])
def test_position_deletes_of_another_count_are_refused(rows: int) -> None:
    with pytest.raises(IncompleteManifestError):
        file_positions(parquet(file_path=["a"] * 3, pos=[1, 2, 3]), ["a"], rows, "d")


def test_a_file_that_is_no_parquet_is_refused() -> None:
    with pytest.raises(IncompleteManifestError):
        file_positions(pa.py_buffer(b"PAR1 no"), ["a"], 1, "d")


FIELDS = list(
    arrow_schema({"fields": [{"id": 1, "name": "a", "type": "long"}, {"id": 2, "name": "b", "type": "string"}]})
)
NO_RANKS = np.zeros(1, np.int64)
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["x", "y", ""])), max_size=12)


@settings(max_examples=200, deadline=None)
@given(ROWS, ROWS, st.sampled_from([(0,), (1,), (0, 1)]), st.data())
def test_null_equals_null_and_nothing_else_does(
    rows: list[Any], deletes: list[Any], by: tuple[int, ...], data: st.DataObject
) -> None:
    """And a row is deleted by files of its own rank and above alone, whichever of them have its key too."""
    fields = [FIELDS[place] for place in by]
    rank = st.integers(0, 3)
    ranks, least = (data.draw(st.lists(rank, min_size=len(some), max_size=len(some))) for some in (deletes, rows))

    def columns(some: list[Any]) -> list[pa.Array]:
        return [pa.array([row[place] for row in some], FIELDS[place].type) for place in by]

    def key(row: Any) -> tuple[Any, ...]:
        return tuple(row[place] for place in by)

    table = pa.table(columns(deletes), schema=pa.schema(fields))
    keys = EqualityKeys.of(fields, table, np.array(ranks, np.int64))
    gone = {(key(row), rank) for row, rank in zip(deletes, ranks, strict=True)}
    expected = [any((key(row), n) in gone for n in range(own, 4)) for row, own in zip(rows, least, strict=True)]
    assert keys.hits(columns(rows), np.array(least, np.int64)).tolist() == expected


@pytest.mark.parametrize("kind", ["float", "double"])
def test_deletes_by_a_number_with_two_zeros_are_refused(kind: str) -> None:
    field = arrow_schema({"fields": [{"id": 1, "name": "a", "type": kind}]}).field(0)
    with pytest.raises(UnsupportedTableError):
        EqualityKeys.of([field], pa.table([pa.array([0.0], field.type)], schema=pa.schema([field])), NO_RANKS)


def test_too_many_columns_are_refused_and_not_numbered_wrongly() -> None:
    fields = [pa.field(f"c{place}", pa.int64()) for place in range(9)]
    rows = pa.table([pa.array(np.arange(200))] * 9, schema=pa.schema(fields))
    with pytest.raises(UnsupportedTableError, match="too many columns"):
        EqualityKeys.of(fields, rows, np.zeros(200, np.int64))
