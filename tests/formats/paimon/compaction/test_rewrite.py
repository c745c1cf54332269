"""Files of append tables rewritten as fewer: the same rows, exact statistics, one COMPACT snapshot."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

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
        {"id": first + 1, "list": [None, "a"], "map": [], "row": {"x": None, "y": []}, "d": float("nan")},
        {"id": first + 2},
    ]
    return pa.Table.from_pylist(rows, schema=TYPES)


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
