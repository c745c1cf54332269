"""The columns of real Paimon lists and manifests, read by the decoder that the pipeline uses."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.formats.paimon.manifests.reader import PaimonReader, list_columns, manifest_columns
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.uri import canonical
from lakewarden.pipeline.read.avro.decode import decode_files
from tests.formats.paimon.tables import Lake, LakeTable

READER = PaimonReader()


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    options = {"data-file.external-paths": f"file://{tmp_path}/ext", "data-file.external-paths.strategy": "round-robin"}
    made = Lake(tmp_path / "wh").create("t", options, primary_keys=["dt", "id"])
    made.write("2024-01-01", "2024-01-02")
    return made


def rows(table: LakeTable, prefix: str, *, lists: bool = False) -> list[dict[str, object]]:
    found = (name for name in table.files() if name.startswith(f"manifest/{prefix}"))
    names = sorted(name for name in found if lists or "manifest-list" not in name)
    assert names
    blobs = [(table.path / name).read_bytes() for name in names]
    decoded, _, errors, _ = decode_files(blobs, list_columns if lists else manifest_columns)
    assert not errors
    return [row for part in decoded for row in part.table.to_pylist()]


def test_manifest_lists(table: LakeTable) -> None:
    found = {str(row["path"]): row for row in rows(table, "manifest-list-", lists=True)}
    manifests = {
        name.removeprefix("manifest/"): name for name in table.files() if name.startswith("manifest/manifest-")
    }
    on_disk = {name for name in manifests if not name.startswith("manifest-list-")}
    assert set(found) == on_disk
    for name, row in found.items():
        assert row["length"] == (table.path / "manifest" / name).stat().st_size
        assert (row["added"], row["deleted"]) == (1, 0)
        assert "extra" in row


def test_manifests(table: LakeTable, tmp_path: Path) -> None:
    found = rows(table, "manifest-")
    on_disk = {path.name: f"file://{path}" for path in (tmp_path / "ext").rglob("*.parquet")}
    assert {row["path"]: canonical(str(row["external"])) for row in found} == on_disk
    assert len(on_disk) == 2
    assert {row["status"] for row in found} == {0}
    assert all(row["extra"] == [] for row in found)


def test_index_manifests(table: LakeTable) -> None:
    found = rows(table, "index-manifest-")
    on_disk = {name.removeprefix("index/") for name in table.files() if name.startswith("index/")}
    assert {row["path"] for row in found} == on_disk
    assert {row["status"] for row in found} == {0}


def test_files_of_older_versions_lack_fields() -> None:
    assert "extra" not in list_columns(["_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"])
    assert dict(manifest_columns(["_KIND", "_FILE", "_FILE._FILE_NAME"])) == {
        "path": "_FILE._FILE_NAME",
        "status": "_KIND",
    }


@pytest.mark.parametrize("missing", ["_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"])
def test_a_list_without_what_proves_it_whole_is_refused(missing: str) -> None:
    names = {"_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"} - {missing}
    with pytest.raises(UnsupportedTableError, match=missing):
        list_columns(names)


def test_a_manifest_without_names_or_kinds_is_refused() -> None:
    for names in (["_FILE._FILE_NAME"], ["_KIND"], ["_INDEX_TYPE", "_KIND"]):
        with pytest.raises(UnsupportedTableError):
            manifest_columns(names)


def test_it_travels_and_recognises_nothing() -> None:
    reader = pickle.loads(pickle.dumps(READER))
    recognise = pickle.loads(pickle.dumps(reader.recogniser([], datetime.now(UTC), ())))
    assert recognise("s3://b/x", "t", object(), whole=True) is None
    assert (reader.format, reader.by_name, reader.keeps_deleted) == ("paimon", True, True)
