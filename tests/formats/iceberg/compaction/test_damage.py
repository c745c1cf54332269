"""What a damaged or odd file makes its decoder raise: the group is left alone by name, and the others land."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.data.order import Rewritten
from tests.formats.iceberg.compaction.bench import Bench
from tests.support.lakes import local_path

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "text", StringType()))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.make(COLUMNS)
    for first in (0, 1000):
        ids = pa.array(range(first, first + 1000), pa.int64())
        found.table.append(pa.table({"id": ids, "text": [f"text {n * n}" for n in range(1000)]}))
    return found


def rewritten(bench: Bench) -> Rewritten:
    return Rewritten.loads(bench.rewrite(bench.prepare(bench.live()))["g0"])


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy"])
def test_a_page_with_a_flipped_bit_is_not_carried_over(bench: Bench, codec: str) -> None:
    one = bench.live()[0]
    path = local_path(one.path)
    pq.write_table(pq.read_table(path), path, compression=codec, write_page_checksum=True, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[pq.read_metadata(path).row_group(0).column(0).data_page_offset + 500] ^= 1
    path.write_bytes(data)
    assert rewritten(bench).code == "LW-TABLE-002"


@pytest.mark.parametrize("raw", [b"\xed\xa0\x80", b"\xff", b"ok\xc3"])
def test_a_text_that_is_none_is_left_alone(bench: Bench, raw: bytes) -> None:
    path = local_path(bench.live()[0].path)
    table = pq.read_table(path)
    offsets = pa.py_buffer(b"".join((n * len(raw)).to_bytes(4, "little") for n in range(1001)))
    bad = pa.Array.from_buffers(pa.string(), 1000, [None, offsets, pa.py_buffer(raw * 1000)])
    pq.write_table(table.set_column(1, table.schema.field(1), bad), path)
    found = rewritten(bench)
    assert (found.code, found.files) == ("LW-TABLE-002", ())
    assert "UTF8" in str(found.message)
    assert not list(path.parent.glob("*-g0-*")), "nothing was written that nobody knows of"
