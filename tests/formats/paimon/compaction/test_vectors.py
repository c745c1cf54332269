"""Deletion vectors: read whole or not at all, and copied to a new file without those of files that went."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

from lakewarden.formats.paimon.data.vectors import Vector, positions, without
from lakewarden.model.errors import IncompleteManifestError, UnreadableMetadataError, UnsupportedTableError
from tests.formats.paimon.compaction.bench import Bench


def blob(*places: int, wide: bool = False) -> bytes:
    """A vector as Paimon writes it."""
    magic = (1681511377).to_bytes(4, "little") if wide else (1581511376).to_bytes(4, "big")
    body = magic + (BitMap64(places) if wide else BitMap(places)).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def described(data: bytes, *, offset: int = 1, wide: bool = False, rows: int | None = None) -> Vector:
    return Vector("index-1", offset, len(data) if wide else len(data) - 8, rows)


@pytest.mark.parametrize("wide", [False, True])
def test_positions_are_those_that_were_written(wide: bool) -> None:
    data = blob(0, 7, 70_000, wide=wide)
    found = positions(b"\x01" + data, described(data, wide=wide, rows=3), 100)
    assert found.tolist() == [0, 7, 70_000]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:-6] + bytes([data[-6] ^ 1]) + data[-5:],
        lambda data: data[:4] + b"\0\0\0\0" + data[8:],
        lambda data: (len(data)).to_bytes(4, "big") + data[4:],
    ],
)
def test_a_damaged_vector_is_not_taken(damage: Any) -> None:
    data = blob(0, 7)
    with pytest.raises(IncompleteManifestError):
        positions(b"\x01" + damage(data), described(data), 100)


def test_a_vector_with_another_count_than_its_index_says_is_not_taken() -> None:
    data = blob(0, 7)
    with pytest.raises(IncompleteManifestError, match="2 positions"):
        positions(b"\x01" + data, described(data, rows=3), 100)


def test_a_vector_of_more_positions_than_its_file_has_rows_is_not_spelled_out() -> None:
    """Four billion of them in a few kilobytes: spelled out, they would need 32 GiB."""
    every = BitMap()
    every.add_range(0, 2**32)
    body = (1581511376).to_bytes(4, "big") + every.serialize()
    data = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    with pytest.raises(IncompleteManifestError, match="for a file of 100 rows"):
        positions(b"\x01" + data, described(data), 100)


def test_the_others_are_copied_in_order() -> None:
    """Paimon reads one vector after the other, so there must be none between them."""
    blobs = {"a": blob(1), "b": blob(2, 3, 4), "c": blob(5)}
    data, ranges, at = b"\x01", [], 1
    for name, part in blobs.items():
        ranges.append({"f0": name, "f1": at, "f2": len(part) - 8, "_CARDINALITY": None})
        data, at = data + part, at + len(part)
    new, left = without(data, "index-1", ranges[::-1], {"b"})
    assert new == b"\x01" + blobs["a"] + blobs["c"]
    assert [(one["f0"], one["f1"]) for one in left] == [("a", 1), ("c", 1 + len(blobs["a"]))]
    assert positions(new, Vector("index-2", left[1]["f1"], left[1]["f2"], 1), 100).tolist() == [5]


COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.date32())])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.create(COLUMNS, {"deletion-vectors.enabled": "true"}, ["dt"])
    for first in (0, 10, 20):
        found.write(pa.table({"id": [first, first + 1], "dt": pa.array([19_000, 19_000], pa.date32())}))
    return found


def add_vectors(bench: Bench, places: dict[str, bytes]) -> None:
    """A snapshot whose index has these vectors, in one file, as a DELETE leaves it."""
    import json

    from pypaimon.manifest.index_manifest_file import INDEX_MANIFEST_ENTRY_SCHEMA

    from lakewarden.formats.avro import AvroFile, write_avro

    location = Path(bench.location.removeprefix("file://"))
    data, ranges = b"\x01", []
    for name, part in places.items():
        ranges.append({"f0": name, "f1": len(data), "f2": len(part) - 8, "_CARDINALITY": None})
        data += part
    (location / "index").mkdir(exist_ok=True)
    (location / "index" / "index-0-0").write_bytes(data)
    entry = {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": bench.entries()[0]["_PARTITION"],
        "_BUCKET": 0,
        "_INDEX_TYPE": "DELETION_VECTORS",
        "_FILE_NAME": "index-0-0",
        "_FILE_SIZE": len(data),
        "_ROW_COUNT": len(ranges),
        "_DELETIONS_VECTORS_RANGES": ranges,
    }
    (location / "manifest" / "index-manifest-0-0").write_bytes(
        write_avro(AvroFile(dict(INDEX_MANIFEST_ENTRY_SCHEMA), "null", (entry,)))
    )
    latest = bench.table.main.latest
    assert latest is not None
    document = {**latest.document, "id": latest.id + 1, "indexManifest": "index-manifest-0-0", "commitIdentifier": 99}
    (location / "snapshot" / f"snapshot-{latest.id + 1}").write_text(json.dumps(document))
    (location / "snapshot" / "LATEST").write_text(str(latest.id + 1))


def names(bench: Bench) -> list[str]:
    return sorted(record["_FILE"]["_FILE_NAME"] for record in bench.entries())


def test_vectors_go_with_their_files_and_the_others_stay(bench: Bench) -> None:
    first, second, third = names(bench)
    add_vectors(bench, {first: blob(0), second: blob(1), third: blob(0)})
    before = bench.rows()
    assert len(before) == 3
    group = bench.groups()[0]
    prepared = bench.prepared([type(group)("g", (first, second))])
    landed = bench.commit(prepared, bench.answers(prepared))
    assert (landed.files_removed, landed.files_added) == (2, 1)
    assert bench.vectors() == {third}
    assert bench.rows() == before


def test_files_whose_rows_are_all_deleted_become_none(bench: Bench) -> None:
    add_vectors(bench, {name: blob(0, 1) for name in names(bench)})
    landed = bench.compact()
    assert (landed.files_removed, landed.files_added) == (3, 0)
    assert (bench.rows(), bench.entries(), bench.vectors()) == ([], [], set())
    latest = bench.table.main.latest
    assert latest is not None
    assert latest.index_manifest is None
    assert latest.document["deltaRecordCount"] == -6


def test_a_vector_that_came_meanwhile_takes_its_group_out(bench: Bench) -> None:
    name = names(bench)[0]
    landed = bench.compact(lambda: add_vectors(bench, {name: blob(0)}))
    assert landed.snapshot is None
    assert "were deleted, or brought back" in landed.dropped["g0"]
    assert len(bench.rows()) == 5


def test_a_vector_beyond_the_last_row_keeps_the_group_from_being_rewritten(bench: Bench) -> None:
    add_vectors(bench, {names(bench)[0]: blob(2)})
    assert "beyond its last" in bench.compact().dropped["g0"]


def test_vectors_that_readers_do_not_apply_refuse_the_table(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.create(COLUMNS, {}, ["dt"])
    bench.write(pa.table({"id": [1, 2], "dt": pa.array([19_000, 19_000], pa.date32())}))
    add_vectors(bench, {names(bench)[0]: blob(0)})
    with pytest.raises(UnsupportedTableError, match=r"deletion-vectors\.enabled is not true"):
        bench.prepared()


def test_a_partition_that_is_garbled_is_told_by_name(bench: Bench) -> None:
    from lakewarden.formats.paimon.compaction.layout import Layout

    with pytest.raises(UnreadableMetadataError, match="garbles a partition"):
        Layout.of(bench.table).directory(b"\0\0\0\2abc", 0)
