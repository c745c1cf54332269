"""A task's memory does not grow with its group: large files, ten thousand files, a thousand files of deletes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewarden.formats.iceberg.data.order import COPIED, ENCODED, EQUALITY, DeleteFile, Input
from tests.formats.iceberg.data.copying import ENCODED_ONLY, Group, schema_of

MEGABYTE = 1 << 20
LONGS = schema_of(("a", "long"), ("b", "long"))
ROOT = Path(__file__).parents[4]


def carried_out(group: Group, **more: Any) -> tuple[dict[str, Any], int]:
    """The answer, and how many bytes the process grew at most."""
    order = group.base / "order.json"
    order.write_text(group.order(**more).dumps())
    command = [sys.executable, "-m", "tests.formats.iceberg.data.peak", str(order)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["answer"]["code"] is None, told["answer"]
    return told["answer"], told["peak"] - told["before"]


def linked(group: Group, path: Path, count: int) -> list[Input]:
    """So many files with the bytes of this one, the group's only one, and its own name for each."""
    names = [path.with_name(f"{number}.parquet") for number in range(count)]
    for name in names:
        os.link(path, name)
    return [replace(group.inputs[0], path=f"file://{name}") for name in names]


@pytest.mark.parametrize("way", [COPIED, ENCODED])
def test_a_file_that_is_larger_than_the_memory_it_may_take(tmp_path: Path, way: str) -> None:
    group = Group(tmp_path, LONGS)
    group.properties["write.parquet.compression-codec"] = "uncompressed"
    values = np.random.default_rng(1)
    rows = [pa.array(values.integers(0, 1 << 62, 24_000_000)) for _ in range(2)]
    table = pa.Table.from_arrays(rows, schema=group.schema)
    path = group.write(table, compression="none", use_dictionary=False, row_group_size=1_000_000)
    del table, rows
    size = path.stat().st_size
    assert size > 360 * MEGABYTE
    more = ENCODED_ONLY if way == ENCODED else {}
    answer, grown = carried_out(group, properties={**group.properties, **more})
    assert (answer["way"], answer["rows_in"]) == (way, 24_000_000)
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"


@pytest.mark.parametrize("way", [COPIED, ENCODED])
def test_many_files_of_which_each_is_fetched_whole(tmp_path: Path, way: str) -> None:
    group = Group(tmp_path, LONGS)
    group.properties["write.parquet.compression-codec"] = "uncompressed"
    values = np.random.default_rng(1)
    rows = [pa.array(values.integers(0, 1 << 62, 700_000)) for _ in range(2)]
    path = group.write(pa.Table.from_arrays(rows, schema=group.schema), compression="none", use_dictionary=False)
    assert 10 * MEGABYTE < path.stat().st_size < 16 * MEGABYTE
    group.inputs = linked(group, path, 24)
    more = ENCODED_ONLY if way == ENCODED else {}
    answer, grown = carried_out(group, properties={**group.properties, **more})
    assert (answer["way"], answer["rows_in"]) == (way, 16_800_000)
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"


def test_ten_thousand_files_of_one_row(tmp_path: Path) -> None:
    group = Group(tmp_path, LONGS)
    path = group.write([{"a": 1, "b": 2}])
    group.inputs = linked(group, path, 10_000)
    answer, grown = carried_out(group)
    assert (answer["rows_in"], len(answer["files"])) == (10_000, 1)
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"


def test_a_thousand_files_of_equality_deletes(tmp_path: Path) -> None:
    group = Group(tmp_path, LONGS)
    numbers = np.arange(200_000)
    for start in (0, 100_000):
        rows = numbers[start : start + 100_000]
        group.write(pa.Table.from_arrays([pa.array(rows), pa.array(rows)], schema=group.schema))
    deletes = []
    keys = Group(tmp_path / "keys", schema_of(("a", "long")))
    for number in range(1_000):
        path = keys.write([{"a": number * 100 + n} for n in range(50)])
        deletes.append(DeleteFile(f"file://{path}", EQUALITY, path.stat().st_size, 50, (1,)))
    group.inputs = [replace(one, deletes=tuple(deletes)) for one in group.inputs]
    answer, grown = carried_out(group)
    assert (answer["rows_deleted"], answer["files"][0]["rows"]) == (50_000, 150_000)
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"


def test_a_stream_of_upserts(tmp_path: Path) -> None:
    """Beside each data file one of deletes, which applies to all that is older: no two inputs have the same deletes."""
    group = Group(tmp_path, LONGS)
    keys = Group(tmp_path / "keys", schema_of(("a", "long")))
    deletes = []
    for number in range(400):
        rows = pa.array(np.arange(1_000) + number * 1_000)
        group.write(pa.Table.from_arrays([rows, rows], schema=group.schema))
        path = keys.write(pa.Table.from_arrays([rows], schema=keys.schema))
        deletes.append(DeleteFile(f"file://{path}", EQUALITY, path.stat().st_size, 1_000, (1,)))
    *older, newest = group.inputs
    group.inputs = [replace(one, deletes=tuple(deletes[place:])) for place, one in enumerate(older)] + [newest]
    assert len(group.order().dumps()) < MEGABYTE
    answer, grown = carried_out(group)
    assert (answer["rows_deleted"], answer["files"][0]["rows"]) == (399_000, 1_000)
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"


def test_small_files_whose_texts_are_long(tmp_path: Path) -> None:
    """A dictionary has a text once, however many rows have it: read together, such files would be large."""
    group = Group(tmp_path, schema_of(("t", "string")))
    path = group.write([{"t": "x" * 20_000}] * 500)
    assert path.stat().st_size < 4096
    group.inputs = linked(group, path, 64)
    small = {"write.parquet.row-group-size-bytes": str(16 * MEGABYTE)}
    answer, grown = carried_out(group, properties=small)
    assert answer["rows_in"] == 32_000
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"


def test_small_files_of_which_most_rows_have_the_one_long_text(tmp_path: Path) -> None:
    """By what a value of their dictionaries takes on the average, they would be small together."""
    group = Group(tmp_path, schema_of(("t", "string")))
    path = group.write([{"t": str(n)} for n in range(200)] + [{"t": "x" * 4_000}] * 800)
    assert path.stat().st_size < 16384
    group.inputs = linked(group, path, 200)
    small = {"write.parquet.row-group-size-bytes": str(16 * MEGABYTE)}
    answer, grown = carried_out(group, properties=small)
    assert answer["rows_in"] == 200_000
    assert grown < 750 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"
