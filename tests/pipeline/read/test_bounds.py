"""Avro files that claim more than they have refuse their own table, in little time and memory; so do fields of other kinds."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.formats.avro import read_avro
from lakewarden.formats.iceberg.manifests.reader import IcebergReader, list_columns, manifest_columns
from lakewarden.model.avro_frames import headed, long, text
from lakewarden.model.errors import BoundsError, IncompleteManifestError
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.avro import decode
from lakewarden.pipeline.read.avro.decode import decode_files
from lakewarden.pipeline.read.manifests import ReadTask, read_lists
from lakewarden.storage.stores import Stores
from tests.foreign.bounds import within

SYNC = b"0123456789abcdef"
MANIFEST = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "status", "type": "int"},
        {
            "name": "data_file",
            "type": {"type": "record", "name": "f", "fields": [{"name": "file_path", "type": "string"}]},
        },
    ],
}
LIST = {
    "type": "record",
    "name": "list",
    "fields": [{"name": "manifest_path", "type": "string"}, {"name": "manifest_length", "type": "long"}],
}
ROW = long(1) + text(b"s3://b/t/data/a.parquet")


def container(schema: Any, *blocks: tuple[int, bytes], codec: bytes = b"null") -> bytes:
    told = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    body = b"".join(long(rows) + long(len(block)) + block + SYNC for rows, block in blocks)
    return headed({b"avro.schema": told, b"avro.codec": codec}, SYNC) + body


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def with_field(kind: Any) -> dict[str, Any]:
    return {**MANIFEST, "fields": [*MANIFEST["fields"], {"name": "more", "type": kind}]}


def nested(depth: int) -> Any:
    kind: Any = "int"
    for number in range(depth):
        kind = {"type": "record", "name": f"r{number}", "fields": [{"name": "x", "type": kind}]}
    return kind


ZSTD_BOMB = bytes(pa.compress(b"\0" * (64 << 20), "zstd", asbytes=True))
SNAPPY_BOMB = b"\xff\xff\xff\xff\x0f" + b"x" * 20

BAD = {
    "rows without bytes": container(MANIFEST, (10**12, ROW)),
    "bytes without rows": container(MANIFEST, (0, ROW)),
    "rows beyond 64 bits": container(MANIFEST).replace(SYNC, SYNC + b"\xff" * 9 + b"\x7f"),
    "rows of nothing": container({"type": "record", "name": "e", "fields": []}, (10**9, b"")),
    "rows of nulls": container(
        {**MANIFEST, "fields": [{"name": n, "type": "null"} for n in ("status", "a")]}, (10**9, b"")
    ),
    "an array of nulls": container(with_field({"type": "array", "items": "null"}), (1, ROW + long(10**12) + long(0))),
    "an array of empty records": container(
        with_field({"type": "array", "items": {"type": "record", "name": "n", "fields": []}}),
        (1, ROW + long(10**12) + long(0)),
    ),
    "an array of nulls by name": container(
        with_field({"type": "array", "items": {"type": "array", "items": {"type": "null"}}}), (1, ROW + long(0))
    ),
    "a string of terabytes": container(MANIFEST, (1, long(1) + long(10**13) + b"x")),
    "a block of terabytes": container(MANIFEST) + long(1) + long(10**13) + b"x",
    "a header of endless names": b"Obj\x01" + long(10**15) + b"x",
    "a name of terabytes": b"Obj\x01" + long(1) + long(10**15) + b"x",
    "a deep schema": container(with_field(nested(90)), (1, ROW + long(1))),
    "a deep list of schemas": container(b"[" * 100_000, (1, ROW)),
    "a schema of megabytes": container(b'{"type": "record", "x": "' + b"x" * (5 << 20) + b'"}', (1, ROW)),
    "a schema that is no schema": container({"type": "record", "name": "e", "fields": "none"}, (1, ROW)),
    "a schema of halves of characters": container(b'{"type": "record", "name": "\\ud800", "fields": []}', (1, ROW)),
    "fixed terabytes": container(with_field({"type": "fixed", "name": "x", "size": 10**13}), (1, ROW)),
    "no snappy at all": container(MANIFEST, (1, b""), codec=b"snappy"),
}
BOMBS = {
    "deflate": container(MANIFEST, (1, deflated(b"\0" * (200 << 20))), codec=b"deflate"),
    "deflate in pieces": container(MANIFEST, *[(1, deflated(b"\0" * (15 << 20)))] * 12, codec=b"deflate"),
    "snappy": container(MANIFEST, (1, SNAPPY_BOMB), codec=b"snappy"),
    "zstandard": container(MANIFEST, (1, ZSTD_BOMB), codec=b"zstandard"),
}
GOOD = container(MANIFEST, (1, ROW))


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_claims_more_than_it_has_is_refused_and_its_neighbour_is_read(case: str) -> None:
    with within(60, 100):
        found = decode_files([BAD[case], GOOD], manifest_columns)
    assert isinstance(found.errors[0], IncompleteManifestError), found.errors
    assert set(found.errors) == {0}
    assert [len(part.table) for part in found.parts] == [1]


@pytest.mark.parametrize("case", BAD)
def test_a_job_that_reads_records_refuses_it_too(case: str) -> None:
    with within(20, 100), pytest.raises(IncompleteManifestError):
        read_avro(BAD[case], "m")


@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_is_not_unpacked(case: str) -> None:
    assert len(BOMBS[case]) < 500_000
    with within(30, 150):
        found = decode_files([BOMBS[case], GOOD], manifest_columns)
        with pytest.raises(BoundsError) as refused:
            read_avro(BOMBS[case], "m")
    assert refused.value.code == "LW-TABLE-010"
    assert isinstance(found.errors[0], BoundsError)
    assert [len(part.table) for part in found.parts] == [1]


def test_many_bombs_are_never_held_at_once_nor_waited_for_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is within its own bounds, and has bytes behind its only row, at which the decoder never ends."""
    monkeypatch.setattr(decode, "BASE_SECONDS", 3.0)
    monkeypatch.setattr(decode, "SECONDS_PER_MB", 0.05)
    monkeypatch.setattr(decode, "LEAST_SECONDS", 2.0)
    monkeypatch.setattr(decode, "MOST_HANGS", 3)
    packed = container(MANIFEST, (1, deflated(ROW + b"\0" * (12 << 20))), codec=b"deflate")
    with within(90, 700):
        found = decode_files([*[packed] * 24, GOOD], manifest_columns)
    assert set(found.errors) >= set(range(24))
    assert decode_files([GOOD], manifest_columns).counts.tolist() == [1], "the next call begins anew"


OTHER_KINDS = {
    "a length of words": {"manifest_length": "string"},
    "a path of numbers": {"manifest_path": "long"},
    "a length of bytes": {"manifest_length": "bytes"},
    "a path of truth": {"manifest_path": "boolean"},
    "a path of many": {"manifest_path": {"type": "array", "items": "string"}},
    "a length of a record": {"manifest_length": nested(1)},
    "counts of words": {"added_files_count": "string", "existing_files_count": "string"},
}
VALUES = {"string": text(b"x"), "long": long(7), "bytes": text(b"\xff"), "boolean": b"\x01"}


@pytest.mark.parametrize("case", OTHER_KINDS)
def test_fields_of_other_kinds_refuse_their_own_table(case: str, tmp_path: Path) -> None:
    """A task reads the lists of many tables: what it cannot make of one list says nothing of the others."""
    kinds = {"manifest_path": "string", "manifest_length": "long"} | OTHER_KINDS[case]
    values = [
        VALUES.get(str(kind), long(1) + text(b"x") + long(0) if "array" in str(kind) else long(3))
        for kind in kinds.values()
    ]
    schema = {"type": "record", "name": "list", "fields": [{"name": n, "type": k} for n, k in kinds.items()]}
    (tmp_path / "bad.avro").write_bytes(container(schema, (1, b"".join(values))))
    (tmp_path / "good.avro").write_bytes(container(LIST, (1, text(b"s3://b/t/m.avro") + long(9))))
    rows = [
        {c.TABLE: number, "format": "iceberg", "uri": f"file://{tmp_path}/{name}.avro", "soft": False}
        for number, name in enumerate(["bad", "good"])
    ]
    listed = pa.Table.from_pylist([{name: row.get(name) for name in c.LISTS.names} for row in rows], schema=c.LISTS)
    batches = read_lists(ReadTask(Stores(), {"iceberg": IcebergReader()}))(listed.to_batches())
    found = pa.Table.from_batches(batches).to_pylist()
    told = {row[c.TABLE]: row["path"] for row in found}
    assert told[1] == "s3://b/t/m.avro"
    assert told[0].startswith("!"), told
    assert json.loads(told[0][1:])["error"] in ("LW-TABLE-002", "LW-TABLE-013")


def test_columns_are_asked_of_whatever_a_schema_says() -> None:
    with within(10, 50):
        found = decode_files([container(LIST, (1, text(b"a") + long(1)))], list_columns)
    assert not found.errors


def test_an_address_without_a_store_refuses_its_own_table(tmp_path: Path) -> None:
    """The scheme is known, and no store for it: a list there says nothing of the lists of other tables."""
    (tmp_path / "good.avro").write_bytes(container(LIST, (1, text(b"s3://b/t/m.avro") + long(9))))
    uris = ["hdfs://name/t/metadata/snap-1.avro", f"file://{tmp_path}/good.avro"]
    rows = [
        {c.TABLE: number, "format": "iceberg", "uri": uri, "soft": False} | dict.fromkeys(["data_files", "length"])
        for number, uri in enumerate(uris)
    ]
    listed = pa.Table.from_pylist([{name: row.get(name) for name in c.LISTS.names} for row in rows], schema=c.LISTS)
    batches = read_lists(ReadTask(Stores(), {"iceberg": IcebergReader()}))(listed.to_batches())
    told = {row[c.TABLE]: row["path"] for row in pa.Table.from_batches(batches).to_pylist()}
    assert told[1] == "s3://b/t/m.avro"
    assert json.loads(told[0][1:])["error"] == "LW-STORE-001"
