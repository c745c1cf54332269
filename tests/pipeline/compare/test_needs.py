"""What holders need is the same with the cache and without it, and by whichever way it is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.model.table import ManifestList, TableState
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare import by_join
from lakewarden.pipeline.compare.holders import Holders, everything
from lakewarden.pipeline.compare.needs import Named, name_manifests
from lakewarden.pipeline.read.cache import CacheFiles, CacheWriter
from lakewarden.pipeline.read.frames import local
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.names import match_keys
from lakewarden.storage.stores import Stores
from tests.formats.third.reader import ShelfReader


def no_spark() -> Any:
    raise AssertionError("a few lists are read without Spark")


def written(path: Path, *manifests: str) -> str:
    named = [{"path": f"file://{path.parent}/{name}", "length": 9, "files": 1} for name in manifests]
    path.write_text(json.dumps({"manifests": named}))
    return f"file://{path}"


def test_a_soft_list_that_was_gone_and_is_back_counts_again(tmp_path: Path) -> None:
    """An older state's list is put into the trash, a plan is made, the list is restored: it protects its files again."""
    lists = [written(tmp_path / f"{name}.json", f"{name}-manifest") for name in ("one", "two", "old")]
    state = TableState(
        identifier="lib.shelf.a", format="shelf", uuid="", metadata_location="", location=f"file://{tmp_path}/",
        roots=(), manifest_lists=tuple(ManifestList(uri, soft=uri.endswith("old.json")) for uri in lists),
    )  # fmt: skip
    stores = Stores({})
    read = ReadTask(stores, {"shelf": ShelfReader()})
    cache = CacheFiles(CacheWriter(stores, f"file://{tmp_path}/cache/"))

    def named(cache: CacheFiles) -> Named:
        return name_manifests(no_spark, Holders.of([everything(0, state)], {}), read, cache)

    def names(found: Named) -> set[str]:
        return {path.rpartition("/")[2] for path in found.once["path"].to_pylist()}

    old = tmp_path / "old.json"
    old.rename(tmp_path / "trash")
    first = named(cache)
    assert names(first) == {"one-manifest", "two-manifest"}
    assert first.kept
    assert not cache.used
    (tmp_path / "trash").rename(old)
    for file in (tmp_path / "one.json", tmp_path / "two.json"):
        file.write_bytes(b"?" * file.stat().st_size)  # what the cache knows is not read again
    again = named(cache.plus(first.kept))
    assert names(again) == {"one-manifest", "two-manifest", "old-manifest"}
    assert not again.refusals
    assert cache.used == {file.uri for file in first.kept}


@pytest.mark.parametrize("separator", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_directory_whose_name_has_lines_hides_no_file_that_is_known_by_name(spark: Any, separator: str) -> None:
    key = f"file:///t/p=a{separator}b/bucket-0/data-1.parquet"
    home, homes = "name:file:///t/", {7: "name:file:///t/"}
    assert match_keys(pa.array([key]), pa.array([7]), homes).to_pylist() == [f"{home}data-1.parquet"]
    listed = local(spark, pa.table({c.ROOT: pa.array([7], pa.int32()), c.KEY: [key]}))
    numbers = {name: pa.array([1], pa.int32()) for name in (c.TABLE, "other", c.KIND, c.MARK)}
    known = local(spark, pa.table({c.KEY: [f"{home}data-1.parquet"], **numbers}))
    rows = by_join._by_name(listed, known, homes).collect()
    assert [(row[c.ROOT], row[c.KEY], row[c.MARK]) for row in rows] == [(7, key, c.MARK_LIVE)]
