"""The one reader of Avro records: a cut file is an error wherever it is cut, whichever format asks."""

from __future__ import annotations

from io import BytesIO

import fastavro
import pytest

from lakewarden.formats.avro import AvroFile, read_avro, rewrite_avro, write_avro
from lakewarden.formats.iceberg.manifests.files import read_manifest
from lakewarden.model.avro_frames import blocks, header
from lakewarden.model.errors import IncompleteManifestError

ROWS = 200  # in blocks of more than 63 rows, whose count takes two bytes
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "path", "type": "string"}]}


def two_blocks(codec: str = "null") -> bytes:
    out = BytesIO()
    fastavro.writer(out, SCHEMA, [{"path": str(n)} for n in range(ROWS)], codec=codec, sync_interval=300)
    data = out.getvalue()
    assert len(list(blocks(data, header(data)[1]))) > 1
    return data


def boundaries(data: bytes) -> set[int]:
    """Where a cut leaves a whole container: behind each block. Only counts that others recorded tell such a cut."""
    _, at = header(data)
    ends, at = {at + 16}, at + 16
    for _, block in blocks(data, at - 16):
        at = data.index(block, at) + len(block) + 16
        ends.add(at)
    return ends


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_every_cut_within_a_block_is_an_error(codec: str) -> None:
    data = two_blocks(codec)
    for at in set(range(len(data))) - boundaries(data):
        with pytest.raises(IncompleteManifestError, match="m cannot be read"):
            read_avro(data[:at], "m")
        with pytest.raises(IncompleteManifestError):
            rewrite_avro(data[:at], "m", lambda records: None)


def damaged_count(data: bytes) -> bytes:
    """One bit of the first block's count is another: as a zigzag number it is negative then."""
    _, at = header(data)
    return data[: at + 16] + bytes([data[at + 16] ^ 1]) + data[at + 17 :]


def test_a_damaged_count_loses_no_rows() -> None:
    data = damaged_count(two_blocks())
    assert len(list(fastavro.reader(BytesIO(data)))) < ROWS, "fastavro skips such a block and says nothing"
    with pytest.raises(IncompleteManifestError, match="negative"):
        read_avro(data, "m")


def test_an_iceberg_manifest_without_counts_is_checked_by_its_frames() -> None:
    """A list of version 1 need not count the entries of its manifests; the length is the file's."""
    data = damaged_count(two_blocks())

    class Files:
        def get(self, uri: str) -> bytes:
            return data

    with pytest.raises(IncompleteManifestError, match="negative"):
        read_manifest(Files(), {"manifest_path": "m", "manifest_length": len(data)})  # type: ignore[arg-type]


def test_what_others_counted_must_be_there() -> None:
    data = two_blocks()
    cut = data[: sorted(boundaries(data))[1]]
    assert 0 < len(read_avro(cut, "m").records) < ROWS
    with pytest.raises(IncompleteManifestError, match="rows and should have 200"):
        read_avro(cut, "m", rows=ROWS)
    with pytest.raises(IncompleteManifestError, match="bytes and should have"):
        read_avro(cut, "m", size=len(data))


def test_written_back_it_is_the_same() -> None:
    data = write_avro(AvroFile(SCHEMA, "deflate", ({"path": "a"},), {"content": "data", "partition-spec-id": "0"}))
    file = read_avro(data, "m")
    assert (file.codec, file.records, file.header) == (
        "deflate",
        ({"path": "a"},),
        {"content": "data", "partition-spec-id": "0"},
    )
    assert read_avro(write_avro(file), "m") == file


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
@pytest.mark.parametrize("lied", [0, 1, 62, 63])
def test_a_count_that_is_too_small_loses_no_rows(codec: str, lied: int) -> None:
    """One byte of a block's count is another: the file is as long as before, and its frames fit."""
    out = BytesIO()
    fastavro.writer(out, SCHEMA, [{"path": str(n)} for n in range(63)], codec=codec)
    data = out.getvalue()
    _, at = header(data)
    assert data[at + 16] == 63 * 2, "one byte of a count"
    damaged = data[: at + 16] + bytes([lied * 2]) + data[at + 17 :]
    assert len(list(fastavro.reader(BytesIO(damaged)))) == lied, "fastavro reads as many and says nothing"
    if lied == 63:
        assert len(read_avro(damaged, "m").records) == 63
        return
    with pytest.raises(IncompleteManifestError):
        read_avro(damaged, "m")
    with pytest.raises(IncompleteManifestError):
        rewrite_avro(damaged, "m", lambda records: None)
