"""Small files read together have the rows that each has by itself; what is wrong with one is found as if it were read alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data import inputs as inputs_module
from lakewarden.formats.iceberg.data import together
from lakewarden.formats.iceberg.data.columns import arrow_schema
from lakewarden.formats.iceberg.data.inputs import InputRows
from lakewarden.formats.iceberg.data.order import POSITION, DeleteFile, Input, Rewritten
from lakewarden.formats.iceberg.data.projection import Absent
from lakewarden.formats.iceberg.data.source import DataFiles, Source
from tests.formats.iceberg.data.copying import Group, rows_in, schema_of
from tests.support.lakes import local_path

STRUCT = {"type": "struct", "fields": [{"id": 100, "name": "m", "required": False, "type": "string"}]}
LIST = {"type": "list", "element-id": 101, "element": "long", "element-required": False}
COLUMNS = schema_of(
    ("n", "long"), ("t", "string"), ("d", "double"), ("b", "boolean"), ("x", "decimal(12, 2)"), ("s", STRUCT)
)
FILES = 12

Outcome = list[Any] | str


def table_of(rows: int, seed: int, nulls: float = 0.2) -> pa.Table:
    chance = random.Random(seed)

    def some(value: Callable[[], Any]) -> list[Any]:
        return [None if chance.random() < nulls else value() for _ in range(rows)]

    columns = [
        some(lambda: chance.randrange(1 << 40)),
        some(lambda: "x" * chance.randrange(30)),
        some(chance.random),
        some(lambda: chance.random() < 0.5),
        some(lambda: Decimal(chance.randrange(10**6)).scaleb(-2)),
        some(lambda: {"m": None if chance.random() < nulls else str(chance.randrange(9))}),
    ]
    schema = arrow_schema(COLUMNS)
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def written(table: pa.Table, **how: Any) -> bytes:
    out = BytesIO()
    pq.write_table(
        table, out, **{"compression": "zstd", "store_schema": False, "store_decimal_as_integer": True, **how}
    )
    return out.getvalue()


def read(files: Sequence[bytes], rows: Sequence[int], columns: Any = COLUMNS) -> tuple[list[list[Any]], int]:
    """The rows of each file, and how many files were read together."""
    some = [
        (one := Input(f"file:///{n}", len(data), count, 1), Source(_no_files(), one, data))
        for n, (data, count) in enumerate(zip(files, rows, strict=True))
    ]
    found: dict[str, list[Any]] = {}
    joined: list[together.Joined] = []

    def counted(*given: Any) -> list[together.Joined]:
        joined.extend(together.read_together(*given))
        return joined

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs_module, "read_together", counted)
        for inputs, batches in InputRows(list(arrow_schema(columns)), Absent(), None).of_some(some):
            values = [row for batch in batches for row in batch.to_pylist()]
            at = 0
            for one in inputs:
                end = at + one.rows if len(inputs) > 1 else len(values)
                found[one.path], at = values[at:end], end
            assert at == len(values)
    assert list(found) == [one.path for one, _ in some], "rows keep their order"
    return list(found.values()), sum(len(one.places) for one in joined)


def apart(files: Sequence[bytes], rows: Sequence[int], columns: Any = COLUMNS) -> list[list[Any]]:
    """The same, each by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs_module, "SMALL", -1)
        found, joined = read(files, rows, columns)
    assert joined == 0
    return found


def outcome(by: Callable[[], Any]) -> Any:
    try:
        return repr(by())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _no_files() -> DataFiles:
    return None  # type: ignore[return-value]


HOW = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["zstd", "none", "snappy", "gzip"]),
        "use_dictionary": st.booleans(),
        "write_statistics": st.booleans(),
        "write_page_index": st.booleans(),
        "write_page_checksum": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "1.0", "2.0"]),
        "data_page_size": st.sampled_from([64, 1 << 20]),
        "store_schema": st.booleans(),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(HOW, min_size=1, max_size=3), st.lists(st.integers(0, 60), min_size=FILES, max_size=40), st.integers())
@example([{}], [20] * FILES, 1)
def test_rows_are_those_of_each_file_by_itself(hows: list[dict[str, Any]], rows: list[int], seed: int) -> None:
    files = [written(table_of(count, seed + n), **hows[n % len(hows)]) for n, count in enumerate(rows)]
    assert read(files, rows)[0] == apart(files, rows)


@pytest.mark.parametrize(
    "how",
    [{}, {"compression": "none"}, {"use_dictionary": False}, {"write_page_checksum": True}, {"store_schema": True}],
    ids=str,
)
def test_files_of_one_writer_are_read_together(how: dict[str, Any]) -> None:
    rows = [200 + n for n in range(FILES)]
    files = [written(table_of(count, n, nulls=0.1), **how) for n, count in enumerate(rows)]
    found, joined = read(files, rows)
    assert joined == FILES
    assert found == apart(files, rows)


def test_files_with_pages_of_different_number_are_told_apart() -> None:
    rows = [100] * FILES + [200] * FILES
    files = [written(table_of(count, 1), data_page_size=64, use_dictionary=False) for count in rows]
    found, joined = read(files, rows)
    assert joined == 2 * FILES
    assert found == apart(files, rows)


def test_files_of_two_writers_are_read_together_each_with_its_own_kind() -> None:
    rows = [50] * 2 * FILES
    files = [written(table_of(50, n), use_dictionary=n % 2 == 0) for n in range(2 * FILES)]
    found, joined = read(files, rows)
    assert joined == 2 * FILES
    assert found == apart(files, rows)


def test_columns_in_lists_are_read_file_by_file() -> None:
    columns = schema_of(("l", LIST))
    # One value in each list: by numbers alone these could be rows.
    table = pa.table([pa.array([[1]] * 30, arrow_schema(columns).field(0).type)], schema=arrow_schema(columns))
    files = [written(table) for _ in range(FILES)]
    found, joined = read(files, [30] * FILES, columns)
    assert joined == 0
    assert found == apart(files, [30] * FILES, columns)


@pytest.mark.parametrize("how", [{}, {"compression": "none"}, {"write_page_checksum": True}], ids=str)
def test_a_damaged_file_is_found_as_if_it_were_read_alone(how: dict[str, Any]) -> None:
    chance = random.Random(7)
    rows = [30] * FILES
    good = [written(table_of(30, n), **how) for n in range(FILES)]
    whole = outcome(lambda: apart(good, rows))
    damaged = 0
    for _ in range(60):
        files, place = list(good), chance.randrange(FILES)
        bad = bytearray(files[place])
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        files[place] = bytes(bad)
        wanted = outcome(lambda: apart(files, rows))  # noqa: B023
        assert outcome(lambda: read(files, rows)[0]) == wanted  # noqa: B023
        damaged += wanted != whole
    assert damaged > 10


def test_a_file_with_fewer_rows_than_its_manifest_says_takes_no_part() -> None:
    rows = [30] * FILES
    files = [written(table_of(30, n)) for n in range(FILES)]
    found, joined = read(files, [*rows[:-1], 31])
    assert joined == FILES - 1
    assert [len(some) for some in found] == rows


def test_what_arrow_does_not_read_together_is_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [30] * FILES
    files = [written(table_of(30, n)) for n in range(FILES)]
    real = together.joined
    monkeypatch.setattr(together, "joined", lambda *given: real(*given)[:-1])
    found, joined = read(files, rows)
    assert joined == 0
    assert found == apart(files, rows)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_and_ids_of_rows_are_those_of_each_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    group = Group(tmp_path, COLUMNS, version)
    for n in range(FILES):
        table = table_of(20, n)
        group.write(table if version == 2 else pa.table(table.columns, schema=table.schema))
        group.inputs[-1] = replace(group.inputs[-1], first_row_id=1000 * n if version > 2 else None, sequence=n + 1)
    for n in (0, 5, 11):
        deletes = tmp_path / f"deletes-{n}.parquet"
        path = group.inputs[n].path
        names = pa.schema(
            [
                pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": b"2147483546"}),
                pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": b"2147483545"}),
            ]
        )
        pq.write_table(pa.table([[path] * 3, [0, 7, 19]], schema=names), deletes)
        one = DeleteFile(f"file://{deletes}", POSITION, deletes.stat().st_size, 3)
        group.inputs[n] = replace(group.inputs[n], deletes=(one,))
    together_rows = _sorted(group.rewritten(prefix=f"file://{tmp_path}/together"))
    monkeypatch.setattr(inputs_module, "SMALL", -1)
    by_itself = _sorted(group.rewritten(prefix=f"file://{tmp_path}/apart"))
    assert together_rows == by_itself
    assert len(by_itself) == 20 * FILES - 9


def _sorted(result: Rewritten) -> list[str]:
    assert result.code is None, result.message
    assert all(local_path(file.path).exists() for file in result.files)
    return sorted(map(repr, rows_in(result)))


@pytest.mark.parametrize("row_groups", [0, 1])
def test_files_without_rows_leave_nothing(tmp_path: Path, row_groups: int) -> None:
    group = Group(tmp_path, COLUMNS, 3)
    for n in range(FILES):
        path = tmp_path / f"empty-{n}.parquet"
        empty = table_of(0, n)
        with pq.ParquetWriter(path, empty.schema, compression="zstd", store_schema=False) as writer:
            for _ in range(row_groups):
                writer.write_table(empty)
        group.add(path, 0)
    result = group.rewritten()
    assert result.code is None, result.message
    assert not result.files
