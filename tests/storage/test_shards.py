"""Whatever the tree, the shards of a root cover it exactly once."""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.model.ports import Shard
from lakewarden.model.uri import FileUri
from lakewarden.storage import s3
from lakewarden.storage.listing import discover_shards, list_shard
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.stores import Stores
from tests.support.storage import Place, Seaweed

SEGMENT = st.text(alphabet="ab0-.%#é~ ", min_size=1, max_size=3).filter(lambda s: s.strip(".") and s == s.strip())
PATHS = st.sets(st.lists(SEGMENT, min_size=1, max_size=4).map(tuple), min_size=1, max_size=40)


def as_files(paths: set[tuple[str, ...]]) -> list[str]:
    """Names that can live together on a disk: no file is also a directory."""
    directories = {path[:i] for path in paths for i in range(1, len(path))}
    return ["/".join(path) for path in paths if path not in directories]


def covered(stores: Stores, root: str, target: int) -> tuple[Counter[str], int]:
    shards = discover_shards(stores, 7, root, target)
    assert {shard.root_id for shard in shards} == {7}
    assert all(shard.prefix.startswith(root) for shard in shards)
    keys = Counter(k for shard in shards for batch in list_shard(stores, shard) for k in batch["key"].to_pylist())
    return keys, len(shards)


@settings(max_examples=60, deadline=None)
@given(paths=PATHS, target=st.integers(1, 12))
def test_local_shards_cover_exactly_once(paths: set[tuple[str, ...]], target: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = as_files(paths)
        for name in files:
            path = Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        keys, count = covered(Stores(), f"file://{directory}/", target)
        assert keys == Counter(f"file://{directory}/{name}" for name in files)
        assert count <= max(1, target)


@settings(max_examples=60, deadline=None)
@given(paths=PATHS, target=st.integers(1, 12))
def test_memory_shards_cover_exactly_once(paths: set[tuple[str, ...]], target: int) -> None:
    stores, root = Stores(), f"memory://m{uuid.uuid4().hex}/t/"
    names = ["/".join(path) for path in paths]
    for name in names:
        stores.put(root + name, b"x")
    keys, _count = covered(stores, root, target)
    assert keys == Counter(root + name for name in names)


def test_one_shard_asks_nothing() -> None:
    assert discover_shards(Stores(), 3, "s3a://nowhere.invalid/t", 1) == [Shard(3, "s3://nowhere.invalid/t/")]


def test_a_deep_directory_is_cut_further(tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / "data" / f"p={i:02d}").mkdir(parents=True)
        (tmp_path / "data" / f"p={i:02d}" / "f").write_bytes(b"x")
    shards = discover_shards(Stores(), 0, f"file://{tmp_path}/", 8)
    sizes = [sum(b.num_rows for b in list_shard(Stores(), shard)) for shard in shards]
    assert len(shards) == 8
    assert sum(sizes) == 40
    assert max(sizes) <= 10


class Flat(ObjectStore):
    """A store whose directories are all too large for one page."""

    def children(self, prefix_key: str) -> tuple[list[str], bool]:
        return [], True


def test_a_huge_flat_directory_is_cut_into_key_ranges() -> None:
    stores, root = Stores(), f"memory://m{uuid.uuid4().hex}/t/"
    for i in range(500):
        stores.put(f"{root}part-{uuid.UUID(int=i * 7919 << 100).hex}", b"x")
    real = stores.at(root)
    assert isinstance(real, ObjectStore)

    class FlatStores(Stores):
        def at(self, uri: str) -> ObjectStore:
            return Flat(real.scheme, real.bucket, real.client)

    keys, count = covered(FlatStores(), root, 8)
    assert len(keys) == 500
    assert set(keys.values()) == {1}
    assert 4 <= count <= 8
    sizes = [sum(b.num_rows for b in list_shard(stores, s)) for s in discover_shards(FlatStores(), 0, root, 8)]
    assert max(sizes) < 250


def test_flat_and_nested_on_s3(seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    stores, root = seaweed.fresh()
    names = [f"data/{i % 16:x}{i:04d}.parquet" for i in range(120)] + [f"p={i}/f" for i in range(10)] + ["é#1", "100%"]
    for name in names:
        stores.put(root + name, b"x")
    keys, _ = covered(stores, root, 6)
    assert keys == Counter(root + name for name in names)
    monkeypatch.setattr(s3.S3Calls, "children", lambda self, prefix: ([], True))
    keys, count = covered(stores, root + "data/", 6)
    assert keys == Counter(root + name for name in names if name.startswith("data/"))
    assert count == 6


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=PATHS, target=st.integers(2, 12))
def test_s3_shards_cover_exactly_once(seaweed: Seaweed, paths: set[tuple[str, ...]], target: int) -> None:
    """On a server that lists directory by directory, not in plain key order."""
    stores, root = seaweed.fresh()
    names = as_files(paths)
    for name in names:
        stores.put(root + name, b"x")
    assert covered(stores, root, target)[0] == Counter(root + name for name in names)


def test_boundaries_on_which_servers_disagree_are_not_used(seaweed: Seaweed) -> None:
    """Plain order has `a/` behind `a-5`; this server lists it before, so a range from there would lose it."""
    stores, root = seaweed.fresh()
    names = ["a/f", "b/f"] + [f"a-{i}/f" for i in range(9)] + [f"c{i}/f" for i in range(9)]
    for name in names:
        stores.put(root + name, b"x")
    keys, count = covered(stores, root, 4)
    assert keys == Counter(root + name for name in names)
    assert count > 1


def test_first_after(place: Place) -> None:
    for name in ("b", "c/d", "e"):
        place.stores.put(place.uri(name), b"x")
    base = FileUri.parse(place.root).key
    store = place.stores.at(place.root)
    assert store.first_after(base, f"{base}b") == f"{base}c/d"
    assert store.first_after(base, base) == f"{base}b"
    assert store.first_after(base, f"{base}e") is None
