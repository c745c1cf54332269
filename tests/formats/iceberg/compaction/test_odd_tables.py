"""Tables that few have: what Parquet and Arrow allow and somebody will write, carried over exactly or left alone by name."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from lakewarden.formats.iceberg.compaction import head as heads
from lakewarden.formats.iceberg.compaction.compactor import check_supported
from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.model.compaction import CompactionPolicy
from lakewarden.model.errors import UnsupportedTableError
from tests.formats.iceberg.compaction.bench import Bench
from tests.jobs.compaction.true_metrics import wrong_metrics

POLICY = CompactionPolicy(True, False, None, "binpack", 2, 0, 1.0, 300)


@pytest.fixture(params=["encoded", "copied"])
def bench(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Row groups are copied as they are where they can be, however small they are, or only where that is worth it."""
    if request.param == "copied":
        monkeypatch.setattr("lakewarden.formats.iceberg.data.row_groups.LEAST_AVERAGE", 0)
    return Bench(tmp_path)


def make(bench: Bench, **columns: IcebergType) -> None:
    bench.make(Schema(*(NestedField(n, name, kind) for n, (name, kind) in enumerate(columns.items(), start=1))))


def put(bench: Bench, *rows: dict[str, Any]) -> None:
    bench.table.append(pa.Table.from_pylist(list(rows), schema=bench.table.schema().as_arrow()))


def check_carried(bench: Bench) -> None:
    """One group of all files: the same rows, and entries that say what is true."""
    # As text: a number that is none equals nothing, itself neither, and the zeros equal each other.
    before = [repr(row) for row in bench.rows()]
    assert bench.compact(bench.live()).groups == ["g0"]
    assert [repr(row) for row in bench.rows()] == before
    assert len(bench.live()) == 1
    assert wrong_metrics(bench.table, "/run-g0") == []


def test_values_at_the_edges_of_their_types(bench: Bench) -> None:
    make(
        bench, b=BooleanType(), i=IntegerType(), l=LongType(), f=FloatType(), d=DoubleType(), d9=DecimalType(9, 2),
        d18=DecimalType(18, 0), d38=DecimalType(38, 38), day=DateType(), at=TimestampType(), zoned=TimestamptzType(),
        s=StringType(), y=BinaryType(), x=FixedType(3),
    )  # fmt: skip
    least = {
        "b": False, "i": -(2**31), "l": -(2**63), "f": float("nan"), "d": float("-inf"), "d9": Decimal("-9999999.99"),
        "d18": Decimal(1 - 10**18), "d38": Decimal("-0." + "9" * 38), "day": date(1, 1, 1), "at": datetime(1, 1, 1),
        "zoned": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "s": "z" * 5000, "y": b"\xff" * 20, "x": b"\0\0\0",
    }  # fmt: skip
    most = {
        "b": True, "i": 2**31 - 1, "l": 2**63 - 1, "f": -0.0, "d": float("nan"), "d9": Decimal("9999999.99"),
        "d18": Decimal(10**18 - 1), "d38": Decimal("0." + "9" * 38), "day": date(9999, 12, 31),
        "at": datetime(9999, 12, 31, 23, 59, 59, 999999), "zoned": datetime(9999, 1, 1, tzinfo=UTC),
        "s": "\U0010ffff" * 20, "y": b"", "x": b"\xff\xff\xff",
    }  # fmt: skip
    put(bench, least, {})
    put(bench, most, {"f": 0.0, "d": 0.0, "s": "", "y": b"\0"})
    put(bench, {}, {})
    check_carried(bench)


def test_names_of_columns_that_a_path_could_not_have(bench: Bench) -> None:
    """`A` beside `a`, dots, blanks, quotes, digits first, and the names of Iceberg's own columns."""
    pair = StructType(NestedField(21, "b", LongType()), NestedField(22, "B", LongType()))
    names = ("a b", "a.c", "A", "ünï", "1x-y", "_file", "_pos", '"q`', "element", "key_value")
    make(bench, a=pair, **{name: LongType() for name in names})
    put(bench, {"a": {"b": 3, "B": 4}, **{name: place for place, name in enumerate(names)}})
    put(bench, {"a": {"b": None, "B": 5}}, {name: -place for place, name in enumerate(names)}, {})
    check_carried(bench)


def test_structs_that_changed_within_lists_and_maps(bench: Bench) -> None:
    inner = StructType(NestedField(20, "x", IntegerType()), NestedField(21, "y", StringType()))
    make(
        bench,
        id=LongType(),
        l=ListType(30, inner, False),
        m=MapType(31, StringType(), 32, inner, False),
        s=StructType(NestedField(40, "in", inner)),
    )
    full = {"x": 1, "y": "a"}
    put(
        bench,
        {"id": 1, "l": [full, None], "m": [("k", full), ("n", None)], "s": {"in": full}},
        {"id": 2},
        {"id": 3, "l": [], "m": [], "s": {"in": None}},
    )
    with bench.table.update_schema(allow_incompatible_changes=True) as change:
        change.add_column(("l", "element", "z"), IntegerType())
        change.rename_column(("l", "element", "x"), "w")
        change.delete_column(("l", "element", "y"))
        change.update_column(("m", "value", "x"), LongType())
        change.add_column(("s", "in", "more"), ListType(1, StringType(), False))
        change.move_first(("s", "in", "y"))
        change.move_first("s")
    put(
        bench,
        {"id": 4, "l": [{"w": 1, "z": 3}], "m": [("k", {"x": 2**40})], "s": {"in": {"more": ["a", None]}}},
        {"id": 5, "l": [], "s": {"in": {"more": []}}},
    )
    with bench.table.update_schema(allow_incompatible_changes=True) as change:
        # Of the name that one had before: another member all the same. And nothing is left of a struct's first members.
        change.add_column(("l", "element", "y"), DoubleType())
        change.delete_column(("s", "in", "x"))
        change.delete_column(("s", "in", "y"))
    put(bench, {"id": 6, "l": [{"w": 1, "z": 3, "y": 0.5}], "s": {"in": {"more": ["a", None]}}})
    check_carried(bench)


def test_a_column_of_as_many_values_as_rows(bench: Bench) -> None:
    """More than a dictionary page holds: pages change their encoding within a row group."""
    make(bench, id=LongType(), s=StringType())
    ids = pa.array(range(100_000), pa.int64())
    for _ in range(2):
        texts = [f"value {n * 7919 % 100_000:08d} of many that are all different" for n in range(100_000)]
        bench.table.append(pa.table({"id": ids, "s": texts}))
    check_carried(bench)


def test_files_without_a_column_of_today(bench: Bench) -> None:
    make(bench, s=StructType(NestedField(2, "x", LongType())))
    put(bench, {"s": {"x": 1}}, {})
    with bench.table.update_schema(allow_incompatible_changes=True) as change:
        change.add_column("q", LongType())
        change.delete_column("s")
    put(bench, {"q": 5})
    check_carried(bench)


@pytest.mark.parametrize(("name", "value", "said"), [("file_format", "ORC", "of the format ORC"), ("key_metadata", b"k", "is encrypted")])  # fmt: skip
@pytest.mark.parametrize("of", ["data", "deletes"])
def test_files_that_are_not_ours_to_read_are_left_by_name(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, value: object, said: str, of: str
) -> None:
    """A table may have files of several formats, whatever it writes by now: no such file is told to be damaged."""
    make(bench, id=LongType())
    put(bench, {"id": 1})
    bench.add_delete({("id", 1): pa.array([1], pa.int64())}, bench.live()[0])
    live = heads.live_files

    def told(*given: Any) -> list[LiveFile]:
        found = list(live(*given))
        for one in found:
            if (int(one.file.get("content") or 0) == 0) == (of == "data"):
                one.entry["data_file"][name] = value
        return found

    monkeypatch.setattr(heads, "live_files", told)
    prepared = bench.prepare(bench.live())
    assert prepared.orders == {}
    assert said in prepared.dropped["g0"]


def test_a_column_of_the_name_that_row_ids_are_stored_under_is_refused(bench: Bench) -> None:
    make(bench, _row_id=LongType())
    put(bench, {"_row_id": 1})
    check_supported(bench.document, POLICY)
    with pytest.raises(UnsupportedTableError, match="its column _row_id has the name"):
        check_supported({**bench.document, "format-version": 3, "next-row-id": 0}, POLICY)
