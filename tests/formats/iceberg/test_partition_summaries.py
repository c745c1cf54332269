"""Summaries of partitions hold every partition, and say so of null and of what is no number."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lakewarden.formats.iceberg.partitions.specs import Field, Spec
from lakewarden.formats.iceberg.partitions.summaries import partition_summaries

NAN = float("nan")


def summary(transform: str, kind: str, *values: Any) -> tuple[Any, ...] | None:
    found = partition_summaries(Spec(0, (Field("p", transform, kind),)), [{"p": value} for value in values])
    return None if found is None else tuple(found[0].values())


@pytest.mark.parametrize(
    ("transform", "kind", "values", "expected"),
    [
        ("identity", "int", (3, -1), (False, False, struct.pack("<i", -1), struct.pack("<i", 3))),
        ("identity", "long", (None, 2**40), (True, False, struct.pack("<q", 2**40), struct.pack("<q", 2**40))),
        ("bucket[4]", "string", (3, 0), (False, False, struct.pack("<i", 0), struct.pack("<i", 3))),
        ("day", "timestamp", (date(1969, 12, 31),), (False, False, struct.pack("<i", -1), struct.pack("<i", -1))),
        ("hour", "timestamptz", (-5, 7), (False, False, struct.pack("<i", -5), struct.pack("<i", 7))),
        ("identity", "timestamptz", (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),), (False, False, *[struct.pack("<q", 10**6)] * 2)),
        ("identity", "double", (NAN, 1.5, -2.0), (False, True, struct.pack("<d", -2), struct.pack("<d", 1.5))),
        ("identity", "float", (0.0,), (False, False, struct.pack("<f", -0.0), struct.pack("<f", 0.0))),
        ("identity", "double", (NAN, None), (True, True, None, None)),
        ("identity", "boolean", (True, False), (False, False, b"\0", b"\1")),
        ("truncate[2]", "string", ("ü", "b"), (False, False, b"b", "ü".encode())),
        ("identity", "binary", (b"\xff", b""), (False, False, b"", b"\xff")),
        ("identity", "decimal(38, 2)", (Decimal("-1.28"), Decimal("1.28")), (False, False, b"\x80", b"\x00\x80")),
        ("void", "string", (None,), (True, False, None, None)),
        ("identity", "uuid", (UUID(int=1),), (False, False, UUID(int=1).bytes, UUID(int=1).bytes)),
    ],
)  # fmt: skip
def test_the_ends_are_those_of_the_values(transform: str, kind: str, values: Any, expected: Any) -> None:
    assert summary(transform, kind, *values) == expected


@pytest.mark.parametrize(
    ("transform", "kind", "values"),
    [
        ("identity", "uuid", (UUID(int=1), UUID(int=2**127))),
        ("identity", "uuid", (UUID(int=1).bytes, UUID(int=2**127).bytes)),
        ("zorder", "int", (1,)),
        ("identity", "", (object(),)),
    ],
)
def test_what_is_not_certain_is_not_said(transform: str, kind: str, values: Any) -> None:
    assert summary(transform, kind, *values) is None


def test_a_table_without_partitions_has_no_summaries() -> None:
    """None in place of an empty list breaks Spark's table of manifests."""
    assert partition_summaries(Spec(0, ()), [{}, {}]) == []
