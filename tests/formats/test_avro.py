"""The one reader of Avro records: a cut file is an error wherever it is cut, whichever format asks."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.formats import avro
from lakewarden.formats.avro import AvroFile, read_avro, rewrite_avro, write_again, write_avro
from lakewarden.formats.iceberg.manifests.files import read_manifest
from lakewarden.model.avro_frames import blocks, header
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError

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


ENTRY = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "status", "type": "int"},
        {"name": "snapshot", "type": ["null", "long"]},
        {
            "name": "file",
            "type": {
                "type": "record",
                "name": "file",
                "fields": [{"name": "path", "type": "string"}, {"name": "row_id", "type": ["null", "long"]}],
            },
        },
    ],
}
ENTRIES = st.fixed_dictionaries(
    {
        "status": st.integers(0, 2),
        "snapshot": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "file": st.fixed_dictionaries({"path": st.text(max_size=200), "row_id": st.none() | st.integers(0, 1 << 40)}),
    }
)


def same_as_whole(old: AvroFile, kept: list[tuple[int, dict[str, Any]]]) -> bytes:
    """What is written again, once it was found to hold what is written whole, in blocks of the same sizes."""
    written, whole = write_again(old, kept), write_avro(replace(old, records=tuple(record for _, record in kept)))
    assert read_avro(written, "m") == read_avro(whole, "m")
    assert [count for count, _ in blocks(written, header(written)[1])] == [
        count for count, _ in blocks(whole, header(whole)[1])
    ]
    assert {**header(written)[0]} == {**header(whole)[0]}
    return written


@given(st.lists(ENTRIES, max_size=300), st.sampled_from(["null", "deflate", "zstandard"]), st.data())
def test_written_again_with_new_heads_it_is_as_if_written_whole(
    entries: list[dict[str, Any]], codec: str, data: st.DataObject
) -> None:
    old = read_avro(write_avro(AvroFile(ENTRY, codec, tuple(entries), {"content": "data"})), "m")
    places = [n for n in range(len(entries)) if data.draw(st.booleans())]
    new = {"status": data.draw(st.integers(0, 2)), "snapshot": data.draw(st.none() | st.integers(0, 1 << 62))}
    same_as_whole(old, [(n, {**old.records[n], **new}) for n in places])
    tails = [(n, {**old.records[n], "file": {**old.records[n]["file"], "row_id": 7 + n}}) for n in places]
    same_as_whole(old, tails)


def test_a_value_that_is_equal_is_not_taken_for_the_same() -> None:
    schema = {**ENTRY, "fields": [{"name": "status", "type": "int"}, {"name": "zero", "type": "double"}]}
    old = read_avro(write_avro(AvroFile(schema, "null", ({"status": 0, "zero": -0.0},))), "m")
    written = read_avro(write_again(old, [(0, {"status": 1, "zero": 0.0})]), "m")
    assert str(written.records[0]["zero"]) == "0.0"


def test_the_bytes_of_a_field_that_is_the_same_are_carried_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer may spell a number longer than it needs to be: what nobody changed is not spelled anew."""
    body = bytes([0, 0, 2]) + b"p" + bytes([2, 0x82, 0])  # row_id 1, in two bytes
    start = write_avro(AvroFile(ENTRY, "null", ()))
    old = read_avro(start + bytes([2, 2 * len(body)]) + body + start[-16:], "m")
    assert old.records == ({"status": 0, "snapshot": None, "file": {"path": "p", "row_id": 1}},)
    assert body[2:] in same_as_whole(old, [(0, {**old.records[0], "snapshot": 5})])
    # Not those of records that somebody put in the place of these.
    other = replace(old, records=({**old.records[0], "file": {"path": "q", "row_id": 2}},))
    assert read_avro(write_again(other, [(0, other.records[0])]), "m").records == other.records
    with pytest.raises(UnsupportedTableError):
        write_again(old, [(0, {"status": 0, "snapshot": None})])
    monkeypatch.setattr(avro, "KEPT_CODECS", ())
    assert body[2:] not in same_as_whole(old, [(0, {**old.records[0], "snapshot": 5})])


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
