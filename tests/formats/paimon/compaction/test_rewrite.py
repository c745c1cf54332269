"""Files of append tables rewritten as fewer: the same rows, exact statistics, one COMPACT snapshot."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

from lakewarden.formats.paimon.partitions.values import decode, partition_columns
from tests.formats.paimon.compaction.bench import Bench

TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("b", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("at3", pa.timestamp("ms")),
        ("price", pa.decimal128(12, 2)),
        ("wide", pa.decimal128(30, 4)),
        ("list", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("row", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int64()))])),
    ]
)


def some_rows(first: int) -> pa.Table:
    """Values, a row of nulls, and lists that are null, empty or have nulls in them."""
    rows = [
        {
            "id": first,
            "b": True,
            "tiny": -3,
            "small": 300,
            "i": first,
            "f": 0.5,
            "d": -0.0,
            "text": "x" * 20 + str(first),
            "raw": b"\xff" * 20,
            "day": date(2024, 2, 29),
            "at": datetime(2024, 1, 1, 1, 2, 3, 456789),
            "at3": datetime(1960, 1, 1, 1, 2, 3, 456000),
            "price": Decimal("-12.34"),
            "wide": Decimal("12345678901234567890.1234"),
            "list": [],
            "map": [("k", None)],
            "row": {"x": 1, "y": None},
        },
        {
            "id": first + 1,
            "list": [None, "a"],
            "map": [],
            "row": {"x": None, "y": []},
            "d": None if first else float("nan"),
        },
        {"id": first + 2},
    ]
    return pa.Table.from_pylist(rows, schema=TYPES)


COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_every_type_reads_as_before(bench: Bench) -> None:
    bench.create(TYPES)
    for first in (0, 10, 20):
        bench.write(some_rows(first))
    before = bench.rows()
    landed = bench.compact()
    assert (landed.files_removed, landed.files_added, landed.dropped) == (3, 1, {})
    assert bench.rows() == before
    assert len(bench.entries()) == 1


def stats(bench: Bench) -> dict[str, tuple[object, object, int]]:
    """What the one file's entry says of the columns that can be decoded as a partition's."""
    (entry,) = bench.entries()
    file, schema = entry["_FILE"], bench.table.main.schema
    assert file["_VALUE_STATS_COLS"] == [field["name"] for field in schema.fields]
    columns = []
    for field in schema.fields:
        kind = field["type"] if isinstance(field["type"], str) else "INT"  # of nested columns only nulls are there
        columns += partition_columns(
            replace(schema, fields=({**field, "type": kind},), partition_keys=(field["name"],))
        )
    least, most = (decode(file["_VALUE_STATS"][name], columns) for name in ("_MIN_VALUES", "_MAX_VALUES"))
    nulls = file["_VALUE_STATS"]["_NULL_COUNTS"]
    return {c.name: found for c, *found in zip(columns, least, most, nulls, strict=True)}  # type: ignore[misc]


def test_statistics_are_those_of_the_rows(bench: Bench) -> None:
    bench.create(TYPES)
    for first in (0, 10, 20):
        bench.write(some_rows(first))
    bench.compact()
    found = {name: tuple(values) for name, values in stats(bench).items()}
    assert found["id"] == (0, 22, 0)
    assert found["i"] == (0, 20, 6)
    # Cut to sixteen characters or bytes, upwards for the greatest; of bytes that cannot be, there is no bound.
    assert found["text"] == ("x" * 16, "x" * 15 + "y", 6)
    assert found["raw"] == (None, None, 6)
    # One file has a number that is none: where it sorts, engines do not agree.
    assert found["d"] == (None, None, 5)
    assert found["f"] == (0.5, 0.5, 6)
    assert found["day"] == (date(2024, 2, 29), date(2024, 2, 29), 6)
    assert found["at"] == (datetime(2024, 1, 1, 1, 2, 3, 456789),) * 2 + (6,)
    assert found["at3"] == (datetime(1960, 1, 1, 1, 2, 3, 456000),) * 2 + (6,)
    assert found["price"] == (Decimal("-12.34"),) * 2 + (6,)
    assert found["wide"] == (Decimal("12345678901234567890.1234"),) * 2 + (6,)
    assert found["list"] == (None, None, 3)


def test_modes_of_statistics_are_obeyed(bench: Bench) -> None:
    modes = {
        "metadata.stats-mode": "counts",
        "fields.text.stats-mode": "full",
        "fields.id.stats-mode": "none",
    }
    bench.create(pa.schema([("id", pa.int64()), ("text", pa.string()), ("v", pa.int32())]), modes)
    for value in range(3):
        bench.write(pa.table({"id": [value], "text": ["y" * 40], "v": pa.array([value], pa.int32())}))
    bench.compact()
    (entry,) = bench.entries()
    assert entry["_FILE"]["_VALUE_STATS_COLS"] == ["text", "v"]
    text = partition_columns(replace(bench.table.main.schema, partition_keys=("text", "v")))
    assert decode(entry["_FILE"]["_VALUE_STATS"]["_MAX_VALUES"], text) == ("y" * 40, None)


def test_files_of_older_schemas_are_read_by_the_ids_of_their_columns(bench: Bench) -> None:
    bench.create(pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.float32()), ("gone", pa.string())]))
    old = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "c": pa.array([0.1], pa.float32()), "gone": ["g"]})
    bench.write(old)
    bench.change_schema(SchemaChange.rename_column("b", "bb"))
    bench.change_schema(SchemaChange.drop_column("gone"))
    # Another column under the name of one that was dropped: nothing of the old one shows in it.
    bench.change_schema(SchemaChange.add_column("gone", AtomicType("STRING")))
    bench.change_schema(SchemaChange.update_column_type("a", AtomicType("BIGINT")))
    bench.change_schema(SchemaChange.update_column_type("c", AtomicType("DOUBLE")))
    bench.write(pa.table({"a": [1 << 40], "bb": ["y"], "c": [0.1], "gone": ["new"]}))
    before = bench.rows()
    landed = bench.compact()
    assert (landed.files_removed, landed.dropped) == (2, {})
    assert bench.rows() == before
    assert "'gone': None" in before[0]
    (entry,) = bench.entries()
    assert entry["_FILE"]["_SCHEMA_ID"] == 5


def test_a_column_that_was_narrowed_keeps_its_files_from_being_rewritten(bench: Bench) -> None:
    bench.create(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    bench.write(pa.table({"a": [1], "b": ["x"]}))
    bench.change_schema(SchemaChange.update_column_type("a", AtomicType("STRING")))
    bench.write(pa.table({"a": ["2"], "b": ["x"]}))
    landed = bench.compact()
    assert list(landed.dropped.values()) == [
        "LW-TABLE-003 a file has BIGINT where the table has STRING, which cannot be turned into it exactly; "
        "nothing was rewritten"
    ]
    assert len(bench.entries()) == 2


def test_files_are_written_as_the_options_ask(bench: Bench) -> None:
    options = {
        "data-file.prefix": "part-",
        "file.compression": "gzip",
        "file.suffix.include.compression": "true",
        "parquet.enable.dictionary": "false",
    }
    bench.create(COLUMNS, options)
    for value in range(3):
        bench.write(pa.table({"id": [value], "v": ["a"]}))
    bench.compact()
    (entry,) = bench.entries()
    name = entry["_FILE"]["_FILE_NAME"]
    assert name.startswith("part-")
    assert name.endswith("-0.gzip.parquet")
    (path,) = bench.base.rglob(name)
    column = pq.read_metadata(path).row_group(0).column(0)
    assert (column.compression, "RLE_DICTIONARY" in column.encodings) == ("GZIP", False)
    assert pq.ParquetFile(path).schema_arrow.field("v").metadata == {b"PARQUET:field_id": b"1"}


def test_new_files_go_to_the_external_path_that_the_table_writes_to(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    options = {
        "data-file.external-paths": f"file://{outside}",
        "data-file.external-paths.strategy": "round-robin",
    }
    bench.create(COLUMNS, options)
    for value in range(3):
        bench.write(pa.table({"id": [value], "v": ["a"]}))
    before = bench.rows()
    assert bench.compact().files_removed == 3
    (entry,) = bench.entries()
    assert entry["_FILE"]["_EXTERNAL_PATH"] == f"file://{outside}/bucket-0/{entry['_FILE']['_FILE_NAME']}"
    assert bench.rows() == before


def test_a_group_that_is_more_than_one_file_should_be_becomes_several(bench: Bench) -> None:
    bench.create(COLUMNS, {"file.compression": "none", "parquet.enable.dictionary": "false"})
    for value in range(20):
        text = [f"{value}-{n}" * 10 for n in range(4_000)]
        bench.write(pa.table({"id": list(range(4_000)), "v": text}))
    before = bench.rows()
    landed = bench.compact(target=1 << 20)
    assert landed.files_removed == 20
    assert landed.files_added > 2
    assert bench.rows() == before
    # Rows are numbered on from one file to the next.
    numbers = sorted((e["_FILE"]["_MIN_SEQUENCE_NUMBER"], e["_FILE"]["_MAX_SEQUENCE_NUMBER"]) for e in bench.entries())
    assert all(one[1] + 1 == two[0] for one, two in pairwise(numbers))
    assert numbers[-1][1] - numbers[0][0] + 1 == 80_000
