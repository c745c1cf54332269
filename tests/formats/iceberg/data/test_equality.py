"""Equality deletes of a whole group: each input loses what its own deletes say, whatever the others have."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data import inputs as inputs_module
from lakewarden.formats.iceberg.data.order import EQUALITY, DeleteFile, Order
from tests.formats.iceberg.data.copying import Group, rows_in, schema_of
from tests.support.lakes import local_path

COLUMNS = schema_of(("a", "long"), ("b", "string"))
BY = {(1,): ("a",), (2,): ("b",), (1, 2): ("a", "b")}

ROW = st.fixed_dictionaries({"a": st.none() | st.integers(0, 4), "b": st.sampled_from([None, "x", "y"])})
FILES = st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=8, max_size=14)
DELETES = st.lists(st.tuples(st.sampled_from(sorted(BY)), st.lists(ROW, min_size=1, max_size=3)), max_size=6)


def made(base: Path, files: list[Any], deletes: list[Any], applied: list[set[int]]) -> Group:
    """A group of these files, to each of which some of the deletes apply."""
    group = Group(base, COLUMNS)
    written = []
    for number, (by, rows) in enumerate(deletes):
        keys = Group(base / f"keys-{number}", {"type": "struct", "fields": [COLUMNS["fields"][n - 1] for n in by]})
        path = keys.write([{name: row[name] for name in BY[by]} for row in rows])
        written.append(DeleteFile(f"file://{path}", EQUALITY, path.stat().st_size, len(rows), by))
    for rows, mine in zip(files, applied, strict=True):
        group.write(rows)
        group.inputs[-1] = replace(group.inputs[-1], deletes=tuple(written[n] for n in sorted(mine)))
    return group


def expected(files: list[Any], deletes: list[Any], applied: list[set[int]]) -> list[str]:
    def gone(row: Any, mine: set[int]) -> bool:
        return any(all(row[name] == key[name] for name in BY[deletes[n][0]]) for n in mine for key in deletes[n][1])

    kept = (row for rows, mine in zip(files, applied, strict=True) for row in rows if not gone(row, mine))
    return [repr({name: row[name] for name in "ab"}) for row in kept]


@pytest.mark.parametrize("small", [1 << 20, -1], ids=["together", "apart"])
@pytest.mark.parametrize("aged", [True, False])
@settings(max_examples=25, deadline=None)
@given(files=FILES, deletes=DELETES, data=st.data())
def test_each_input_loses_what_its_own_deletes_say(
    small: int, aged: bool, files: list[Any], deletes: list[Any], data: st.DataObject
) -> None:
    """By their age, as in every table; and, whatever a commit may one day hand over, by any other rule."""
    if aged:
        ages = data.draw(st.lists(st.integers(0, len(deletes)), min_size=len(files), max_size=len(files)))
        applied = [set(range(age, len(deletes))) for age in ages]
    else:
        some = st.sets(st.integers(0, len(deletes) - 1)) if deletes else st.just(set[int]())
        applied = data.draw(st.lists(some, min_size=len(files), max_size=len(files)))
    with tempfile.TemporaryDirectory() as base, pytest.MonkeyPatch.context() as patched:
        patched.setattr(inputs_module, "SMALL", small)
        group = made(Path(base), files, deletes, applied)
        result = group.rewritten()
        assert result.code is None, result.message
        assert rows_in(result) == expected(files, deletes, applied)


def test_an_order_is_what_it_was_after_its_journey(tmp_path: Path) -> None:
    deletes = [((1,), [{"a": 1, "b": None}]), ((1, 2), [{"a": 2, "b": "x"}])]
    group = made(tmp_path, [[{"a": 1, "b": "x"}]] * 4, deletes, [{0, 1}, {1}, set(), {0, 1}])
    order = group.order(dropped=({"id": 9},), constants={2: "x"}, sizes=(1, 2))
    assert Order.loads(order.dumps()) == order


def test_a_file_of_deletes_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    real = pq.ParquetFile.read
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *given, **more: read.append(given) or real(*given, **more))
    rows = [[{"a": n % 5, "b": "x"}] for n in range(12)]
    deletes = [((1,), [{"a": n % 5, "b": None}]) for n in range(4)]
    group = made(tmp_path, rows, deletes, [set(range(n // 3, 4)) for n in range(12)])
    monkeypatch.setattr(inputs_module, "SMALL", -1)
    assert group.rewritten().code is None
    assert len(read) == len(deletes)
    assert all(local_path(one.path).exists() for one in group.inputs)
