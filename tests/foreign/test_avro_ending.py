"""Whether a file may have lost blocks at its end, by the blocks it has: as real writers make them."""

from __future__ import annotations

from io import BytesIO

import fastavro
import pytest

from lakewarden.foreign.avro_ending import doubtful_end
from lakewarden.foreign.codecs import unpacker
from lakewarden.model.avro_frames import blocks, header

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "path", "type": "string"}]}
JAVA = 64_000


def written(rows: int, interval: int = 16_000, codec: str = "deflate") -> list[tuple[int, int]]:
    """Rows and bytes of the blocks of a list of so many manifests, of about 150 bytes each."""
    out = BytesIO()
    records = ({"path": f"s3://bucket/table/metadata/{n:0120d}-m0.avro"} for n in range(rows))
    fastavro.writer(out, SCHEMA, records, codec=codec, sync_interval=interval)
    data = out.getvalue()
    unpack = unpacker(codec.encode())
    return [(count, len(unpack(block, 1 << 30))) for count, block in blocks(data, header(data)[1])]


@pytest.mark.parametrize("interval", [16_000, 16_384, JAVA])
@pytest.mark.parametrize("rows", [1200, 1500, 3333])
def test_a_cut_between_blocks_is_always_doubted(interval: int, rows: int) -> None:
    whole = written(rows, interval)
    assert len(whole) > 2
    for end in range(len(whole)):
        assert doubtful_end(whole[:end]), (interval, rows, end)


@pytest.mark.parametrize("rows", [1, 50, 90])
def test_a_small_list_is_not_doubted(rows: int) -> None:
    assert doubtful_end(written(rows)) == ""


def test_few_whole_lists_are_doubted() -> None:
    """Those whose last block happens to be almost full: there, nothing tells."""
    for interval, share in ((16_000, 0.4), (JAVA, 0.12)):
        sizes = range(400, 2400, 7)
        doubted = sum(bool(doubtful_end(written(rows, interval))) for rows in sizes)
        assert doubted / len(sizes) < share, interval


def test_a_writer_that_ends_blocks_early_is_doubted() -> None:
    assert "shorter" in doubtful_end(written(30, 300))
    assert doubtful_end(written(30, 300)[:1]) == "", "one small block is all that most lists have"


def test_a_file_without_rows_is_doubted() -> None:
    assert doubtful_end([]) == doubtful_end([(0, 0)]) == "it has no rows"
