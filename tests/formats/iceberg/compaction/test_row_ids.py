"""Ids of rows of version 3, kept whoever gives them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.formats.iceberg.compaction.bench import Bench

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


def test_rows_that_were_given_ids_meanwhile_are_left_alone(tmp_path: Path) -> None:
    """The first commit after an upgrade numbers the rows of every file: files rewritten before it hold no ids."""
    bench = Bench(tmp_path)
    bench.make(COLUMNS, BY_PART)
    for first in (0, 4):
        bench.table.append(pa.table({"id": pa.array(range(first, first + 4), pa.int64()), "part": list("abab")}))
    bench.change(lambda document: document.update({"format-version": 3, "next-row-id": 0}))
    of = {p: [one for one in bench.live() if one.file["partition"] == {"part": p}] for p in "ab"}
    slow, quick = bench.prepare(of["a"], run="slow"), bench.prepare(of["b"], run="quick")
    answers = bench.rewrite(slow)
    assert bench.commit(quick, bench.rewrite(quick), "quick").groups == ["g0"]
    numbered = {one.path: one.file["first_row_id"] for one in bench.live()}
    assert None not in numbered.values()
    landed = bench.commit(slow, answers, "slow")
    assert landed.groups == []
    assert "given ids" in landed.dropped["g0"]
    assert bench.compact(of["a"], run="again").groups == ["g0"]
