"""What listings must survive: links, loops, markers, names that cannot be carried."""

from __future__ import annotations

import os
import re
import socket
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Shard
from lakewarden.storage.listing import list_shard
from lakewarden.storage.stores import Stores
from tests.support.fault_proxy import Answer, edited, fault_proxy, method
from tests.support.storage import SHARED, Seaweed


def flags(stores: Stores, root: str) -> dict[str, str | None]:
    rows = [row for batch in list_shard(stores, Shard(0, root)) for row in batch.to_pylist()]
    return {row["key"].removeprefix(root): row["flag"] for row in rows}


def local(root: Path) -> dict[str, str | None]:
    return flags(Stores(), f"file://{root}/")


def test_links_are_rows_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_bytes(b"x")
    (root / "linked-dir").symlink_to(outside)
    (root / "linked-file").symlink_to(outside / "precious")
    (root / "loop").symlink_to(root)
    (root / "dangling").symlink_to("nowhere")
    assert local(root) == {
        "f": None, "linked-dir": "symlink", "linked-file": "symlink", "loop": "symlink", "dangling": "symlink",
    }  # fmt: skip


def test_a_root_that_is_a_link_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(b"x")
    (tmp_path / "root").symlink_to(tmp_path / "real")
    rows = [r for b in list_shard(Stores(), Shard(0, f"file://{tmp_path}/root/")) for r in b.to_pylist()]
    assert [(row["key"], row["flag"]) for row in rows] == [(f"file://{tmp_path}/root", "symlink")]


def test_bad_names_are_said_and_the_rest_is_listed(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"x")
    (tmp_path / "tab\there").write_bytes(b"x")
    (tmp_path / "dir\nline").mkdir()
    with open(os.path.join(os.fsencode(tmp_path), b"bad-\xff"), "wb"):
        pass
    found = local(tmp_path)
    assert found["good"] is None
    assert sorted(flag for flag in found.values() if flag) == [
        "unlistable: control character in a name",
        "unlistable: control character in a name",
        "unlistable: name is not UTF-8",
    ]
    assert all(key.isprintable() for key in found)


def test_special_files_and_a_file_in_place_of_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)
        server.bind("sock")
    assert local(tmp_path) == {"pipe": "special", "sock": "special"}
    (tmp_path / "plain").write_bytes(b"x")
    (flag,) = flags(Stores(), f"file://{tmp_path}/plain/").values()
    assert flag is not None
    assert flag.startswith("unlistable: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_directory_is_unknown_not_empty(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    try:
        assert local(tmp_path) == {"closed/": "unlistable: Permission denied"}
    finally:
        (tmp_path / "closed").chmod(stat.S_IRWXU)


def test_markers_on_s3_are_never_files(seaweed: Seaweed) -> None:
    bucket, client = seaweed.bucket(), seaweed.client()
    client.put_object(Bucket=bucket, Key="t/z/", Body=b"")
    client.put_object(Bucket=bucket, Key="t/z/f", Body=b"x")
    client.put_object(Bucket=bucket, Key="t/g", Body=b"x")
    client.put_object(Bucket=bucket, Key="t/empty", Body=b"")
    found = flags(Stores({f"s3://{bucket}": seaweed.options()}), f"s3://{bucket}/t/")
    assert found.pop("z", "marker") == "marker"
    assert found == {"z/f": None, "g": None, "empty": "marker"}


def test_a_name_that_is_also_a_directory_is_a_marker() -> None:
    stores, root = Stores(), "memory://markers/t/"
    for name in ("z", "z/f", "y"):
        stores.put(root + name, b"x")
    assert flags(stores, root) == {"z": "marker", "z/f": None, "y": None}


def test_a_large_tree_is_fast(tmp_path: Path) -> None:
    for d in range(20):
        (tmp_path / f"p={d}").mkdir()
        for f in range(500):
            (tmp_path / f"p={d}" / f"{f}.parquet").touch()
    start = time.perf_counter()
    assert sum(b.num_rows for b in list_shard(Stores(), Shard(0, f"file://{tmp_path}/"))) == 10_000
    assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize("direct", [False, True])
def test_a_listing_that_ends_too_early_is_an_error(seaweed: Seaweed, direct: bool) -> None:
    """A page says that there is more, and not where: the client takes it for the last one."""

    def without_a_token(answer: Answer) -> Answer:
        body = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", answer.body)
        return Answer(answer.status, answer.headers, body)

    with fault_proxy(seaweed.endpoint) as proxy:
        stores = Stores({f"s3://{SHARED}": {**seaweed.options(), "endpoint": proxy.endpoint}})
        _, root = seaweed.fresh()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda number: stores.put(f"{root}{number:04d}", b"x"), range(1000)))
        store, key = stores.at(root), root.split("/", 3)[3]
        assert sum(batch.num_rows for batch in store.list(key, direct=direct)) == 1000
        stores.put(f"{root}one-more", b"x")
        assert sum(batch.num_rows for batch in store.list(key, direct=direct)) == 1001
        proxy.on(method("GET", query="list-type"), edited(without_a_token), times=None)
        with pytest.raises(StoreUnavailableError, match="not whole"):
            list(store.list(key, direct=direct))
