"""What one metadata.json says, and what makes a table refused."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lakewarden.formats.iceberg.metadata.document import parse, table_state
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.table import Ref, TableState
from tests.formats.iceberg.documents import BASE, UUID, at, document, snapshot


def state(found: dict[str, Any]) -> TableState:
    return table_state("lake.t", at(9), found)


def code(found: dict[str, Any]) -> str | None:
    refusal = state(found).refusal
    return refusal.code if refusal else None


def reached(found: dict[str, Any]) -> set[str]:
    return {file.uri for file in state(found).files}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_of_each_version_reaches_its_lists_log_and_itself(version: int) -> None:
    found = state(document(1, 2, version=version))
    assert found.refusal is None
    assert found.format_version == version
    assert found.uuid == UUID
    assert found.roots == (BASE,)
    assert found.snapshot_ids == {1, 2}
    assert found.refs == (Ref("main", 2, "branch"),)
    assert [(item.uri, item.data_files, item.soft) for item in found.manifest_lists] == [
        (f"{BASE}/metadata/snap-1.avro", 1, False),
        (f"{BASE}/metadata/snap-2.avro", 2, False),
    ]
    assert {file.uri for file in found.files} >= {at(9), at(0), at(1), f"{BASE}/metadata/snap-1.avro"}


def test_every_snapshot_counts_not_only_those_that_refs_name() -> None:
    found = state(document(1, 2, 3, refs={"main": {"snapshot-id": 1, "type": "branch"}}, current_snapshot_id=1))
    assert len(found.manifest_lists) == 3


def test_each_earlier_metadata_file_was_current_until_the_next_one_came() -> None:
    found = state(document(1, 2, 3, last_updated_ms=99_000))
    assert [(e.uri, e.current_from_ms, e.current_until_ms) for e in found.history] == [
        (at(0), 0, 1000),
        (at(1), 1000, 2000),
        (at(2), 2000, 99_000),
    ]


def test_statistics_of_tables_and_partitions_are_reached() -> None:
    found = document(
        1, statistics=[{"statistics-path": f"{BASE}/a.stats"}], partition_statistics=[{"statistics-path": "s3://x/b"}]
    )
    assert reached(found) >= {f"{BASE}/a.stats", "s3://x/b"}


def test_every_directory_that_properties_name_is_a_root() -> None:
    paths = {"write.data.path": "s3://d/1", "write.metadata.path": "s3://m/1", "write.object-storage.path": "s3://o/1",
             "write.folder-storage.path": "s3://f/1"}  # fmt: skip
    assert set(state(document(1, properties=paths)).roots) == {BASE, *paths.values()}


def test_fields_nobody_knows_protect_the_addresses_in_them() -> None:
    odd = {"index": [{"path": f"{BASE}/data/x.parquet", "type": "text/plain"}], "deep": {"a": {"b": "s3://c/d"}}}
    found = document(1, future=odd)
    found["snapshots"][0]["extra-list"] = f"{BASE}/metadata/extra.avro"
    assert reached(found) >= {f"{BASE}/data/x.parquet", "s3://c/d", f"{BASE}/metadata/extra.avro"}
    assert "text/plain" not in reached(found)
    assert state(found).refusal is None


def test_flink_jobs_leave_their_ids() -> None:
    jobs = [snapshot(1, summary={"flink.job-id": "job-b"}), snapshot(2, summary={"flink.job-id": "job-a"}), snapshot(3)]
    assert state(document(1, snapshots=jobs)).writer_prefixes == ("job-a", "job-b")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format_version": 4}, "LW-TABLE-003"),
        ({"format_version": 0}, "LW-TABLE-003"),
        ({"format_version": "two"}, "LW-TABLE-001"),
        ({"table_uuid": None}, "LW-TABLE-003"),
        ({"properties": {"gc.enabled": "false"}}, "LW-TABLE-004"),
        ({"properties": {"gc.enabled": "False"}}, "LW-TABLE-004"),
        ({"properties": {"write.location-provider.impl": "com.acme.Places"}}, "LW-TABLE-003"),
        ({"properties": {"encryption.key-id": "k"}}, "LW-TABLE-006"),
        ({"properties": {"write.data.path": "relative/dir"}}, "LW-TABLE-001"),
        ({"properties": "none"}, "LW-TABLE-001"),
        ({"location": "no address"}, "LW-TABLE-001"),
        ({"encryption_keys": []}, "LW-TABLE-006"),
        ({"snapshots": [snapshot(1, **{"key-id": "k"})]}, "LW-TABLE-006"),
        ({"snapshots": [snapshot(1, **{"manifest-list": None})]}, "LW-TABLE-003"),
        ({"snapshots": [snapshot(1, **{"manifest-list": "metadata/snap-1.avro"})]}, "LW-TABLE-001"),
        ({"snapshots": [{"manifest-list": "s3://b/x"}]}, "LW-TABLE-001"),
        ({"snapshots": ["x"]}, "LW-TABLE-001"),
        ({"last_updated_ms": None}, "LW-TABLE-001"),
        ({"metadata_log": [{"timestamp-ms": 1}]}, "LW-TABLE-001"),
        ({"metadata_log": [{"timestamp-ms": 1, "metadata-file": "x.json"}]}, "LW-TABLE-001"),
        ({"statistics": [{}]}, "LW-TABLE-001"),
    ],
)
def test_what_cannot_be_understood_is_refused(changes: dict[str, Any], expected: str) -> None:
    """Refused, never raised: one such table must not stop the others. Its directory stays known."""
    found = state(document(1, **changes))
    assert found.refusal is not None
    assert found.refusal.code == expected
    assert found.roots


@pytest.mark.parametrize(
    "changes",
    [
        {"properties": {"gc.enabled": "false"}},
        {"properties": {"write.location-provider.impl": "com.acme.Places"}},
        {"table_uuid": None},
    ],
)
def test_a_table_that_is_refused_yet_readable_still_says_what_it_reaches(changes: dict[str, Any]) -> None:
    """It may hold files in other tables' directories."""
    found = state(document(1, **changes))
    assert found.refusal is not None
    assert found.manifest_lists
    assert found.files


def test_gc_enabled_true_is_no_reason() -> None:
    assert code(document(1, properties={"gc.enabled": "true"})) is None


def test_gzip_is_known_by_its_bytes() -> None:
    text = json.dumps(document(1)).encode()
    assert parse(gzip.compress(text), "x") == parse(text, "x")


@pytest.mark.parametrize("cut", [1, 30, -20, -1])
def test_a_damaged_gzip_document_is_unreadable(cut: int) -> None:
    packed = bytearray(gzip.compress(json.dumps(document(1, 2, 3)).encode()))
    with pytest.raises(UnreadableMetadataError):
        parse(bytes(packed[:cut]), "x")
    packed[cut if cut > 15 else 40] ^= 0xFF
    with pytest.raises(UnreadableMetadataError):
        parse(bytes(packed), "x")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a": 1}x', b"\0" * 100, b"[" * 100_000])
def test_what_is_no_document_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableMetadataError):
        parse(data, "x")


def test_a_pointer_that_is_no_address_leaves_a_table_without_roots() -> None:
    found = table_state("lake.t", "nowhere.metadata.json", {})
    assert found.refusal is not None
    assert found.roots == ()
