"""Row groups copied as they are: the same rows, counts and bounds as a new encoding leaves, or no copy."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data import row_groups
from lakewarden.formats.iceberg.data.foreign_footer import TRAILER, parse_footer
from lakewarden.formats.iceberg.data.order import COPIED, ENCODED, POSITION, DeleteFile
from lakewarden.formats.iceberg.data.statistics import LEAST, MOST, NULLS
from lakewarden.formats.iceberg.data.thrift import dumps, loads
from tests.formats.iceberg.data.copying import Group, rows_in, schema_of, told
from tests.support.lakes import local_path

_INSTANT = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
_DIGITS = st.integers(-(10**20), 10**20)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": st.dates(date(1, 1, 1), date(9999, 1, 1)),
    "timestamp": _INSTANT,
    "string": st.text(max_size=30) | st.sampled_from(["z" * 5000, "\U0010ffff" * 20, ""]),
    "binary": st.binary(max_size=30) | st.just(b"\xff" * 20),
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "decimal(7, 2)": st.integers(-(10**6), 10**6).map(lambda n: Decimal(n) / 100),
    "decimal(12, 3)": st.integers(-(10**10), 10**10).map(lambda n: Decimal(n) / 1000),
    "decimal(25, 0)": _DIGITS.map(Decimal),
}
LIST = {"type": "list", "element-id": 101, "element-required": False, "element": "string"}
STRUCT = {
    "type": "struct",
    "fields": [
        {"id": 102, "name": "x", "required": False, "type": "int"},
        {"id": 103, "name": "inner", "required": False, "type": {
            "type": "list", "element-id": 104, "element-required": False, "element": "double"}},
        {"id": 105, "name": "y", "required": False, "type": "string"},
    ],
}  # fmt: skip
MAP = {"type": "map", "key-id": 106, "key": "string", "value-id": 107, "value-required": False, "value": "long"}
_TEXTS = st.lists(st.none() | st.text(max_size=4), max_size=3)
NESTED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (LIST, _TEXTS),
    (
        STRUCT,
        st.fixed_dictionaries(
            {
                "x": st.none() | st.integers(0, 9),
                "inner": st.none() | st.lists(st.none() | st.floats(), max_size=3),
                "y": st.none() | st.text(max_size=20),
            }
        ),
    ),
    (MAP, st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 9), max_size=3).map(lambda d: [*d.items()])),
]
KINDS = [*VALUES.items(), *NESTED]
HOW = st.fixed_dictionaries(
    {
        "row_group_size": st.sampled_from([7, 20, 1000]),
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "data_page_size": st.sampled_from([1, 64, 1 << 20]),
        "write_page_index": st.booleans(),
        "write_page_checksum": st.booleans(),
        "write_statistics": st.sampled_from([True, True, False]),
        "store_schema": st.booleans(),
        "write_batch_size": st.sampled_from([3, 1024]),
    }
)


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[list[dict[str, Any]], dict[str, Any]]], str]:
    chosen = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    chosen = [one for n, one in enumerate(chosen) if isinstance(one[0], str) or one not in chosen[:n]]
    columns = schema_of(*((f"c{n}", kind) for n, (kind, _) in enumerate(chosen)))
    row = st.fixed_dictionaries({f"c{n}": st.none() | values for n, (_, values) in enumerate(chosen)})
    files = draw(st.lists(st.tuples(st.lists(row, max_size=40), HOW), min_size=1, max_size=3))
    return columns, files, draw(st.sampled_from(["zstd", "gzip", "snappy", "none", "brotli"]))


@pytest.fixture(autouse=True, scope="module")
def nothing_is_too_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "LEAST_AVERAGE", 0)
        yield


@settings(max_examples=60, deadline=None)
@given(groups())
def test_copied_rows_counts_and_bounds_are_those_of_a_new_encoding(made: Any) -> None:
    columns, files, codec = made
    with tempfile.TemporaryDirectory() as base:
        group = Group(Path(base), columns)
        group.properties["write.parquet.compression-codec"] = "uncompressed" if codec == "none" else codec
        for rows, how in files:
            group.write(rows, compression=codec, **how)
        group.told_by_manifests()
        result, other = group.rewritten(), group.encoded()
        assert result.code is None, result.message
        assert result.way == (COPIED if group.rows() else ENCODED), result.why
        assert rows_in(result) == group.rows()
        assert told(result) == told(other)
        for file, same in zip(result.files, other.files, strict=True):
            schemas = [pq.read_schema(local_path(one.path)) for one in (file, same)]
            assert schemas[0].equals(schemas[1], check_metadata=True)


LONG = schema_of(("n", "long"), ("t", "string"), ("d", "double"))


def long_rows(start: int = 0, count: int = 500) -> list[dict[str, Any]]:
    return [{"n": n, "t": f"text {n}", "d": n / 7} for n in range(start, start + count)]


@pytest.fixture
def group(tmp_path: Path) -> Group:
    found = Group(tmp_path, deepcopy(LONG))
    for n in range(3):
        found.write(long_rows(n * 500), row_group_size=200)
    return found


def test_bytes_of_row_groups_are_those_of_the_inputs(group: Group) -> None:
    result = group.rewritten()
    assert (result.way, result.why, result.rows_in, result.rows_deleted) == (COPIED, "", 1500, 0)
    new = local_path(result.files[0].path).read_bytes()
    footer = footer_of(new)
    assert len(footer.groups) == 9
    old = [local_path(one.path).read_bytes() for one in group.inputs]
    chunks = [data[c.start : c.start + c.length] for data in old for g in footer_of(data).groups for c in g.chunks]
    assert [new[c.start : c.start + c.length] for g in footer.groups for c in g.chunks] == chunks
    assert footer.created_by == f"parquet-cpp-arrow version {pa.__version__}"
    assert result.files[0].split_offsets == tuple(g.chunks[0].start for g in footer.groups)


@pytest.mark.parametrize("lie", ["most", "least", "text", "nulls"])
def test_a_footer_that_says_what_no_manifest_says_is_not_believed(group: Group, lie: str) -> None:
    group.told_by_manifests()
    assert group.rewritten().way == COPIED
    path = local_path(group.inputs[1].path)
    data = path.read_bytes()
    length = int.from_bytes(data[-TRAILER:-4], "little")
    footer, _ = loads(data[-TRAILER - length : -TRAILER])
    numbers, texts = (footer[4].value.values[2][1].value.values[place][3].value[12].value for place in (0, 1))
    if lie == "nulls":
        numbers[NULLS] = numbers[NULLS]._replace(value=7)
    elif lie == "text":
        texts[MOST] = texts[MOST]._replace(value=b"text 95")
    else:
        numbers[MOST if lie == "most" else LEAST] = numbers[MOST]._replace(value=(950).to_bytes(8, "little"))
    lying = dumps(footer)
    path.write_bytes(data[: -TRAILER - length] + lying + len(lying).to_bytes(4, "little") + b"PAR1")
    group.inputs[1] = replace(group.inputs[1], size=path.stat().st_size)
    result = group.rewritten()
    # The least of the whole file is in an earlier row group: that lie is none of the file's.
    assert result.way == (COPIED if lie == "least" else ENCODED)
    if lie != "least":
        assert "what the table's manifest does not" in result.why
    assert told(result) == told(group.encoded())


def footer_of(data: bytes) -> Any:
    length = int.from_bytes(data[-TRAILER:-4], "little")
    return parse_footer(data[-TRAILER - length : -TRAILER], len(data))


def test_pages_are_found_by_the_carried_index(tmp_path: Path) -> None:
    import datafusion

    group = Group(tmp_path, LONG)
    for n in range(3):
        group.write(long_rows(n * 5000, 5000), row_group_size=2000, write_page_index=n != 1, data_page_size=500)
    result = group.rewritten()
    assert result.way == COPIED, result.why
    found = pq.read_metadata(local_path(result.files[0].path))
    chunks = [found.row_group(n).column(0) for n in range(found.num_row_groups)]
    assert [(c.has_offset_index, c.has_column_index) for c in chunks] == [(n // 3 != 1,) * 2 for n in range(9)]
    context = datafusion.SessionContext()
    context.register_parquet("t", str(local_path(result.files[0].path)))
    for wanted in (3, 4999, 5000, 7777, 14_999):
        (batch,) = context.sql(f"SELECT t FROM t WHERE n = {wanted}").collect()
        assert batch.to_pydict() == {"t": [f"text {wanted}"]}


def without_statistics(group: Group) -> str:
    group.write(long_rows(), write_statistics=False)
    return ""


def deletes(group: Group) -> str:
    one = DeleteFile("file:///none", POSITION, 1, 1)
    group.inputs[0] = replace(group.inputs[0], deletes=(one,))
    return "deletes apply to it"


def another_codec(group: Group) -> str:
    group.write(long_rows(), compression="snappy")
    return "is not compressed by zstd"


def renamed(group: Group) -> str:
    group.columns = schema_of(("n", "long"), ("text", "string"), ("d", "double"))
    return "has other columns"


def another_order(group: Group) -> str:
    group.write(pa.Table.from_pylist(long_rows(), group.schema).select(["t", "n", "d"]))
    return "has other columns"


def widened(group: Group) -> str:
    table = pa.Table.from_pylist(long_rows(), group.schema)
    narrow = pa.field("n", pa.int32(), metadata=group.schema.field("n").metadata)
    group.write(table.set_column(0, narrow, table["n"].cast(pa.int32())))
    return "has other columns"


def without_ids(group: Group) -> str:
    group.write(pa.Table.from_pylist(long_rows()))
    return "has other columns"


def made_optional(group: Group) -> str:
    field = group.schema.field("n").with_nullable(False)
    group.write(pa.Table.from_pylist(long_rows(), pa.schema([field, *list(group.schema)[1:]])))
    return "that it is never null"


def made_required(group: Group) -> str:
    for field in group.columns["fields"]:
        field["required"] = True
    return "has other columns"


def large_row_groups(group: Group) -> str:
    group.write(long_rows(0, 50_000), use_dictionary=False)
    group.properties = {"write.parquet.row-group-size-bytes": "4000"}
    return "larger than the table wants"


def wanted_level(group: Group) -> str:
    group.properties["write.parquet.compression-level"] = "9"
    return "write.parquet.compression-level"


def unequal_files(group: Group) -> str:
    total = sum(one.size for one in group.inputs)
    group.target, group.sizes = total // 2, (total // 2, total // 2)
    return "do not make up files of the right size"


@pytest.mark.parametrize(
    "how",
    [deletes, another_codec, renamed, another_order, widened, without_ids, made_optional, made_required, large_row_groups,
     wanted_level, unequal_files],
)  # fmt: skip
def test_what_a_copy_would_not_leave_as_wanted_is_encoded_and_says_why(group: Group, how: Any) -> None:
    why = how(group)
    result = group.rewritten()
    assert result.way == ENCODED
    if result.code is None:
        assert why in result.why


def test_small_row_groups_are_not_kept_small_for_ever(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "LEAST_AVERAGE", 8 << 20)
    result = group.rewritten()
    assert (result.way, result.why) == (ENCODED, "its row groups are small")


def test_columns_that_their_files_call_never_null_are_copied(tmp_path: Path) -> None:
    """As Spark writes rows that have no nulls, whatever the table allows."""
    group = Group(tmp_path, LONG)
    required = pa.schema([field.with_nullable(False) for field in group.schema])
    for n in range(3):
        group.write(pa.Table.from_pylist(long_rows(n * 500), required))
    result = group.rewritten()
    assert result.way == COPIED, result.why
    assert rows_in(result) == group.rows()
    assert told(result) == told(group.encoded())


def test_statistics_that_are_missing_are_taken_from_the_rows(group: Group) -> None:
    without_statistics(group)
    result = group.rewritten()
    assert result.way == COPIED
    assert told(result) == told(group.encoded())


def test_a_large_group_becomes_files_of_about_the_same_size(group: Group) -> None:
    total = sum(one.size for one in group.inputs)
    group.target, group.sizes = total // 2 + 1, (total // 4, total)
    result = group.rewritten()
    assert (result.way, len(result.files)) == (COPIED, 2), result.why
    assert rows_in(result) == group.rows()
    assert sum(file.rows for file in result.files) == 1500


@pytest.mark.parametrize("stored", [True, False])
def test_rows_of_version_3_are_copied_only_if_they_store_their_ids(tmp_path: Path, stored: bool) -> None:
    group = Group(tmp_path, LONG, version=3)
    for n in range(2):
        rows = long_rows(n * 500)
        for row in rows:
            row |= {"_row_id": row["n"] if stored or row["n"] else None, "_last_updated_sequence_number": 3}
        group.write(rows)
    result = group.rewritten()
    assert result.way == (COPIED if stored else ENCODED)
    assert stored or "ids of its rows" in result.why
    if stored:
        assert rows_in(result) == group.rows()


@pytest.mark.parametrize("where", [0.02, 0.3, 0.6])
def test_a_damaged_page_is_told_and_nothing_is_left(group: Group, where: float) -> None:
    path = group.write(long_rows(), write_page_checksum=True)
    data = bytearray(path.read_bytes())
    place = 60 + int(len(data) * where)
    data[place] ^= 0x41
    path.write_bytes(data)
    result = group.rewritten()
    assert result.code is not None
    assert not [one for one in group.base.iterdir() if one.name.startswith("out")]


def test_a_file_with_other_rows_than_its_manifest_says_is_told(group: Group) -> None:
    group.inputs[1] = replace(group.inputs[1], rows=499)
    result = group.rewritten()
    assert "has 500 rows and should have 499" in str(result.message)


def test_numbers_that_are_none_are_counted_and_bound_nothing(tmp_path: Path) -> None:
    group = Group(tmp_path, schema_of(("d", "double"), ("n", "long")))
    for values in ([math.nan, -0.0, None], [1.5, math.nan, math.inf], [math.nan] * 3):
        group.write([{"d": value, "n": 1} for value in values] * 30)
    result = group.rewritten()
    assert result.way == COPIED, result.why
    (file,) = result.files
    assert (file.nan_counts, file.null_counts) == ({1: 150}, {1: 30, 2: 0})
    assert told(result) == told(group.encoded())
