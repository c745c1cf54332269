"""Which names in a Paimon table may ever be candidates, and which never."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewarden.formats.paimon.metadata.names import NAMES
from lakewarden.model.verdict import Kind
from tests.formats.paimon.tables import Lake

U = "59cadf9e-e91a-41ed-b1a1-60b9a183cad3"
V = "14d03597-faf3-47f5-8f80-1f8dbcd29827"
BUCKET = "dt=2024-01-01/bucket-0/"


def matches(pattern: str | None, path: str) -> bool:
    """As the pipeline matches: RE2, anywhere in the path unless anchored."""
    return pattern is not None and bool(pc.match_substring_regex(pa.array([path]), pattern)[0].as_py())


def candidate(path: str) -> bool:
    return matches(NAMES.written, path) and not matches(NAMES.hidden, path) and not matches(NAMES.reused, path)


def kind(path: str) -> Kind:
    return next((kind for kind, pattern in NAMES.kinds if matches(pattern, path)), Kind.OTHER)


WRITTEN = {
    f"manifest/manifest-list-{U}-0": Kind.MANIFEST_LIST,
    f"manifest/manifest-list-{U}-changelog": Kind.MANIFEST_LIST,
    f"manifest/manifest-{U}-12": Kind.MANIFEST,
    f"manifest/manifest-{U}-changelog-0": Kind.MANIFEST,
    f"manifest/manifest-{U}-0.avro.sidecar": Kind.MANIFEST,
    f"manifest/index-manifest-{U}-0": Kind.MANIFEST,
    f"manifest/index-manifest-{U}": Kind.MANIFEST,
    f"index/index-{U}-0": Kind.INDEX,
    f"index/btree-global-index-{U}.index": Kind.INDEX,
    f"index/vector-ivf_flat-global-index-{U}.index": Kind.INDEX,
    f"btree-global-index-{U}.index": Kind.INDEX,  # directly in global-index.external-path
    f"statistics/stat-{U}-0": Kind.STATISTICS,
    f"bucket-0/data-{U}-0.parquet": Kind.DATA,
    f"{BUCKET}data-{U}-3.orc": Kind.DATA,
    f"{BUCKET}my prefix-{U}-3.avro": Kind.DATA,
    f"{BUCKET}{U}-3.avro": Kind.DATA,
    f"{BUCKET}changelog-{U}-0.parquet": Kind.DATA,
    f"{BUCKET}data-{U}-0.zstd.parquet": Kind.DATA,
    f"{BUCKET}data-{U}-0.json.gz": Kind.DATA,
    f"{BUCKET}data-{U}-0.blob": Kind.DATA,
    f"{BUCKET}data-{U}-0.vector.lance": Kind.DATA,
    f"{BUCKET}data-{U}-0.parquet.row": Kind.DATA,
    f"{BUCKET}data-{U}-0.orc.blobref": Kind.DATA,
    f"{BUCKET}data-{U}-0.orc.1234.value.v1.lookup": Kind.DATA,
    f"{BUCKET}data-{U}-0.parquet.index": Kind.INDEX,
    f"{BUCKET}data-{U}-0.parquet-2.index": Kind.INDEX,
    f"{BUCKET}index-{U}-0": Kind.INDEX,
    f"dt=a%3Ab/h=__DEFAULT_PARTITION__/bucket-12/data-{U}-0.parquet": Kind.DATA,
    f"bucket-postpone/data--u-{V}-s-1426785335-w-{U}-0.avro": Kind.DATA,
    f"snapshot/.snapshot-9.{U}.tmp": Kind.OTHER,
    f"snapshot/.LATEST.{U}.tmp": Kind.OTHER,
    f"schema/.schema-1.{U}.tmp": Kind.OTHER,
    f"tag/.tag-2024-01-01.{U}.tmp": Kind.OTHER,
    f"changelog/.changelog-1.{U}.tmp": Kind.OTHER,
    f"consumer/.consumer-c.{U}.tmp": Kind.OTHER,
    f"branch/branch-b1/snapshot/.snapshot-9.{U}.tmp": Kind.OTHER,
    f"branch/branch-b1/tag/.tag-x.{U}.tmp": Kind.OTHER,
    f"manifest/.manifest-{V}-0.{U}.tmp": Kind.OTHER,
    f"index/.index-{V}-0.{U}.tmp": Kind.OTHER,
    f"statistics/.stat-{V}-0.{U}.tmp": Kind.OTHER,
    f"{BUCKET}.data-{V}-0.parquet.{U}.tmp": Kind.OTHER,
}

NEVER = [
    *(f"{branch}{name}" for branch in ("", "branch/branch-b1/") for name in (
        "snapshot/snapshot-1", "snapshot/snapshot-abc", "snapshot/LATEST", "snapshot/EARLIEST", "changelog/changelog-1",
        "changelog/LATEST", "changelog/EARLIEST", "schema/schema-0", "tag/tag-x", "consumer/consumer-c",
        f"tag/tag-{U}", f"tag/tag-data-{U}-0.parquet", f"consumer/consumer-{U}-0", "tag/tag-success-file/x_SUCCESS",
    )),
    f"changelog/changelog-{U}-0.parquet",
    f"snapshot/snapshot-9.{U}.tmp",
    f"snapshot/.snapshot-9.{U}.tmp.bak",
    f"snapshot/deep/.snapshot-9.{U}.tmp",
    "snapshot/.snapshot-9.tmp",
    f".snapshot-9.{U}.tmp",
    f"other/.x.{U}.tmp",
    f"{BUCKET}data-{U}-0.managed.blob",
    f"{BUCKET}.data-{U}-0.managed.blob",
    f"{BUCKET}compacted-changelog-{U}$0-1234.cc-parquet",
    f"{BUCKET}tmp-compacted-changelog-{U}",
    f"{BUCKET}data-{U}-0.parquet.bak",
    f"{BUCKET}data-{U}-0.backup.parquet",
    f"{BUCKET}data-{U}-0.unheardof",
    f"{BUCKET}data-{U}-0",
    f"{BUCKET}data-{U}.parquet",
    f"{BUCKET}part-00000.parquet",
    f"{BUCKET}_SUCCESS",
    f"{BUCKET}deep/data-{U}-0.parquet",
    f"{BUCKET}.data-{U}-0.parquet.crc",
    f"dt=2024-01-01/data-{U}-0.parquet",
    f"dt=2024-01-01/bucket-x/data-{U}-0.parquet",
    f"backup/dt=2024-01-01/bucket-0/data-{U}-0.parquet",
    f"backup/manifest/manifest-{U}-0",
    f"manifest/old/manifest-{U}-0",
    f"manifest/manifest-{U}",
    f"manifest/manifest-{U}-0.avro",
    f"manifest/manifest-{U.upper()}-0",
    f"manifest/x-manifest-{U}-0",
    f"statistics/stat-{U}",
    f"data-{U}-0.parquet",
    f"metadata/snap-1-1-{U}.avro",
    "service/service-primary-key-lookup",
    "readme.md",
]  # fmt: skip


@pytest.mark.parametrize(("path", "expected"), WRITTEN.items())
def test_what_the_format_writes(path: str, expected: Kind) -> None:
    assert candidate(path)
    assert kind(path) is expected


@pytest.mark.parametrize("path", NEVER)
def test_what_is_never_a_candidate(path: str) -> None:
    assert not candidate(path)


def test_managed_blobs_are_protected_twice() -> None:
    path = f"{BUCKET}data-{U}-0.managed.blob"
    assert matches(NAMES.hidden, path)
    assert not matches(NAMES.written, path)


def test_metadata_names_may_come_again() -> None:
    for name in ("snapshot/snapshot-1", "tag/tag-x", "branch/branch-b/snapshot/LATEST", "schema/schema-0"):
        assert matches(NAMES.reused, name)
        assert kind(name) is Kind.METADATA


def test_every_file_of_real_tables_is_known(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "wh")
    outside = {"data-file.external-paths": f"file://{tmp_path}/ext", "data-file.external-paths.strategy": "round-robin"}
    keys = ["dt", "id"]
    tables = [
        lake.create("append"),
        lake.create(
            "prefixed", {"data-file.prefix": "mine-", "file.format": "orc", "file.suffix.include.compression": "true"}
        ),
        lake.create("keyed", primary_keys=keys),
        lake.create("logged", {"bucket": "1", "changelog-producer": "input"}, primary_keys=keys),
        lake.create("vectors", {"deletion-vectors.enabled": "true", "bucket": "2"}, primary_keys=keys),
        lake.create("later", {"bucket": "-2"}, primary_keys=keys),
        lake.create("outside", outside),
        lake.create("indexed", {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}),
    ]
    for table in tables:
        table.write("2024-01-01", "a:b=c /d")
        table.opened.create_tag("t", 1)
        table.opened.branch_manager().create_branch("b", "t")
        paths = table.files()
        assert any(kind(path) is Kind.MANIFEST_LIST for path in paths)
        for path in paths:
            assert matches(NAMES.written, path) != matches(NAMES.reused, path), path
            assert kind(path) is not Kind.OTHER, path
    found = [os.path.relpath(path, tmp_path / "ext") for path in (tmp_path / "ext").rglob("*") if path.is_file()]
    assert len(found) == 2
    assert all(candidate(path) and kind(path) is Kind.DATA for path in found)


@pytest.mark.parametrize(
    "path", ["dt=1", "dt=1/", "dt=1/h=2/", "dt=1/bucket-0/", "bucket-0", "bucket-postpone/", "dt=a%2Fb"]
)
def test_directories_that_may_go_once_empty(path: str) -> None:
    assert matches(NAMES.directories, path)


@pytest.mark.parametrize(
    "path",
    [
        "snapshot",
        "manifest/",
        "index/",
        "schema/",
        "branch/branch-b/",
        "branch/branch-k=v/",
        "dt=1/x/",
        "x/dt=1/",
        "bucket-x",
        "",
        "/",
    ],
)
def test_directories_that_stay(path: str) -> None:
    assert not matches(NAMES.directories, path)


@pytest.mark.parametrize(
    ("mark", "address"),
    [
        ("delta", "s3://b/t/_delta_log/0.json"),
        ("hudi", "s3://b/t/.hoodie/x"),
        ("iceberg", "s3://b/t/metadata/v1.metadata.json"),
        ("iceberg", f"s3://b/t/metadata/00001-{U}.metadata.json"),
    ],
)
def test_marks_of_other_formats(mark: str, address: str) -> None:
    assert [name for name, pattern in NAMES.foreign.items() if matches(pattern, address)] == [mark]
    assert not any(matches(pattern, "s3://b/t/snapshot/LATEST") for pattern in NAMES.foreign.values())
