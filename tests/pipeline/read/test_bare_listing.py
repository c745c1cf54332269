"""A bare listing says of each file what a full one says, once it is asked; and asks the disk for little else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewarden.model.ports import Shard
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.by_hash import Live, joined
from lakewarden.pipeline.read.entries import UNSIZED
from lakewarden.pipeline.read.hashing import key_hashes
from lakewarden.pipeline.read.listing import list_shards, shards_table, with_details
from lakewarden.pipeline.read.names import KIND_CODES
from lakewarden.storage import walk
from lakewarden.storage.listing import discover_shards
from lakewarden.storage.stores import Stores

STORES = Stores({})
ODD = "bad\nname"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for directory in range(4):
        place = tmp_path / "t" / f"p={directory}"
        (place / "deep").mkdir(parents=True)
        for number in range(5):
            (place / f"{number}.parquet").write_bytes(b"x" * number)
        (place / "deep" / "f").touch()
    (tmp_path / "t" / "p=1" / "link").symlink_to(tmp_path)
    (tmp_path / "t" / "p=2" / "linked").symlink_to(tmp_path / "t" / "p=2" / "1.parquet")
    os.mkfifo(tmp_path / "t" / "p=3" / "pipe")
    (tmp_path / "t" / ODD).touch()
    return tmp_path / "t"


def listed(shards: list[Shard], *, bare: bool) -> pa.Table:
    step = list_shards(STORES, bare=bare)
    return pa.Table.from_batches(step(iter(shards_table(shards).to_batches())), schema=c.LISTED)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row[c.KEY], row[c.ROOT]))


def no_sizes(rows: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.zeros(rows, bool), np.full(rows, UNSIZED, np.uint32)


@pytest.mark.parametrize("target", [1, 3, 8])
def test_a_bare_listing_with_its_details_is_the_full_one(tree: Path, target: int) -> None:
    shards = discover_shards(STORES, 7, f"file://{tree}/", target)
    shards += discover_shards(STORES, 8, f"file://{tree}/p=1/", 1)
    bare = listed(shards, bare=True).combine_chunks().to_batches()[0]
    detailed, there = with_details(bare, *no_sizes(bare.num_rows))
    assert there.all()
    full = rows_of(listed(shards, bare=False))
    assert rows_of(pa.Table.from_batches([detailed])) == full
    assert {row[c.FLAG] for row in full} >= {None, "symlink", "special"}


def test_one_file_of_each_directory_is_looked_at(tree: Path) -> None:
    rows = rows_of(listed([Shard(0, f"file://{tree}/p=0/")], bare=True))
    sizes = {row[c.KEY].rpartition("/")[0][-4:]: 0 for row in rows}
    for row in rows:
        sizes[row[c.KEY].rpartition("/")[0][-4:]] += row[c.SIZE] is not None
    assert set(sizes.values()) == {1}


def test_a_directory_whose_files_cannot_be_looked_at_is_unknown(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names can be read and its files cannot, as where the right to search it is missing."""

    class Closed:
        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name, self._entry = entry.name, entry

        def is_dir(self, **how: bool) -> bool:
            return self._entry.is_dir(**how)

        def is_file(self, **how: bool) -> bool:
            return self._entry.is_file(**how)

        def stat(self, **_: bool) -> os.stat_result:
            raise PermissionError(13, "Permission denied")

    class Directory:
        def __init__(self, path: str) -> None:
            self._entries = real(path)

        def __enter__(self) -> list[Closed]:
            return [Closed(entry) for entry in self._entries]

        def __exit__(self, *_: object) -> None:
            self._entries.close()

    real = os.scandir
    monkeypatch.setattr(walk.os, "scandir", Directory)
    rows = rows_of(listed([Shard(0, f"file://{tree}/p=0/deep/")], bare=True))
    assert [(row[c.KEY], row[c.FLAG]) for row in rows] == [
        (f"file://{tree}/p=0/deep/", "unlistable: Permission denied")
    ]


def needed(keys: list[str], sizes: list[int]) -> Live:
    hashes = key_hashes(pa.array(keys, pa.string()))
    order = np.argsort(hashes)
    data = np.full(len(keys), KIND_CODES[Kind.DATA], np.int8)
    numbers = np.zeros(len(keys), np.int32)
    return Live(hashes[order], numbers, data, numbers, np.array(sizes, np.uint32)[order])


def test_the_disk_is_asked_only_for_files_that_nobody_needs_or_of_no_recorded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["live", "unsized", "orphan", "gone"]
    keys = [f"file://{tmp_path}/{name}" for name in names]
    for name in names[:-1]:
        (tmp_path / name).write_bytes(b"123")
    asked: list[str] = []
    real = os.lstat
    monkeypatch.setattr(walk.os, "lstat", lambda path: asked.append(path) or real(path))
    blank = [pa.nulls(4, c.LISTED.field(name).type) for name in c.LISTED.names[2:]]
    batch = pa.record_batch([pa.array([0] * 4, pa.int32()), pa.array(keys), *blank], schema=c.LISTED)
    rows = joined(batch, needed(keys[:2], [99, UNSIZED]), {}, bare=True).to_pylist()
    assert sorted(asked) == sorted(str(tmp_path / name) for name in names[1:])
    # A file that is gone by now is not listed; a needed one is counted by what its manifest records of it.
    assert [(row[c.KEY], row[c.SIZE], row[c.MARK]) for row in rows] == [
        (None, 99, c.MARK_LIVE),
        (None, 3, c.MARK_LIVE),
        (keys[2], 3, 0),
    ]
    assert rows[2][c.MODIFIED] is not None
    assert rows[2][c.ETAG] is not None


def test_a_file_that_cannot_be_looked_at_makes_its_root_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: str) -> os.stat_result:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(walk.os, "lstat", refused)
    key = f"file://{tmp_path}/f"
    blank = [pa.nulls(1, c.LISTED.field(name).type) for name in c.LISTED.names[2:]]
    batch = pa.record_batch([pa.array([0], pa.int32()), pa.array([key]), *blank], schema=c.LISTED)
    (row,) = joined(batch, needed([], []), {}, bare=True).to_pylist()
    assert (row[c.KEY], row[c.FLAG]) == (key, "unlistable: Input/output error")


def test_rows_of_an_inventory_are_never_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk.os, "lstat", None)
    row = {c.ROOT: 0, c.KEY: "file:///nowhere/f", c.SIZE: None}
    batch = pa.RecordBatch.from_pylist([row], schema=c.LISTED)
    (found,) = joined(batch, needed([], []), {}).to_pylist()
    assert (found[c.SIZE], found[c.FLAG]) == (None, None)
