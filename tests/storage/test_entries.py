"""One directory's entries: all of them with bare names, or an error that names what could not be listed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.storage.entries import entries_of
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.store import Children
from lakewarden.storage.stores import Stores
from tests.support.storage import Place, Seaweed


def put(place: Place, *names: str) -> None:
    for name in names:
        place.stores.put(place.uri(name), name.encode())


def test_files_and_directories_are_bare_and_sorted(place: Place) -> None:
    put(
        place,
        "t/snapshot/snapshot-2",
        "t/snapshot/snapshot-10",
        "t/snapshot/LATEST",
        "t/snapshot/deep/x",
        "t/a/b/c",
        "t/tt/x",
    )
    found = place.stores.entries(place.uri("t/snapshot"))
    assert [file.key for file in found.files] == ["LATEST", "snapshot-10", "snapshot-2"]
    assert found.directories == ("deep",)
    assert place.stores.entries(place.uri("t/")).directories == ("a", "snapshot", "tt")
    assert place.stores.entries(place.uri("t/")).files == ()


def test_sizes_and_tags_are_those_of_head(place: Place) -> None:
    put(place, "d/x")
    (file,) = place.stores.entries(place.uri("d")).files
    head = place.stores.head(place.uri("d/x"))
    assert head is not None
    assert (file.size, file.etag) == (head.size, head.etag)
    assert file.modified is not None


def test_an_empty_file_is_listed(place: Place) -> None:
    place.stores.put(place.uri("d/snapshot-1"), b"")
    assert [(file.key, file.size) for file in place.stores.entries(place.uri("d")).files] == [("snapshot-1", 0)]


def test_a_directory_that_is_not_there_is_empty(place: Place) -> None:
    put(place, "dd/x")
    found = place.stores.entries(place.uri("d"))
    assert (found.files, found.directories) == ((), ())


def test_awkward_names(place: Place) -> None:
    put(place, "d/tag-a b", "d/tag-ü", "d/tag-100%", "d/k=v%3A/x")
    found = place.stores.entries(place.uri("d"))
    assert [file.key for file in found.files] == ["tag-100%", "tag-a b", "tag-ü"]
    assert found.directories == ("k=v%3A",)


def test_more_names_than_a_page_holds(seaweed: Seaweed) -> None:
    stores, root = seaweed.fresh()
    client = seaweed.client()
    bucket, _, key = root.removeprefix("s3://").partition("/")
    for i in range(1005):
        client.put_object(Bucket=bucket, Key=f"{key}snapshot-{i}", Body=b"x")
    client.put_object(Bucket=bucket, Key=f"{key}zz/y", Body=b"x")
    found = stores.entries(root)
    assert len(found.files) == 1005
    assert found.directories == ("zz",)


def test_a_missing_bucket_is_an_error(seaweed: Seaweed) -> None:
    name = f"nobody{uuid.uuid4().hex[:8]}"
    with pytest.raises(StoreUnavailableError):
        Stores({f"s3://{name}": seaweed.options()}).entries(f"s3://{name}/wh")


def test_a_missing_mount_is_an_error(tmp_path: Path) -> None:
    stores = Stores({f"file://{tmp_path}/mnt": {}})
    with pytest.raises(StoreUnavailableError, match="not there"):
        stores.entries(f"file://{tmp_path}/mnt/wh/db.db")
    (tmp_path / "mnt").mkdir()
    assert stores.entries(f"file://{tmp_path}/mnt/wh/db.db").directories == ()


def test_a_directory_without_a_name_is_an_error() -> None:
    """A key with two slashes in a row, as some stores keep it."""

    class Odd(ObjectStore):
        def children(self, prefix_key: str) -> Children:
            return [f"{prefix_key.strip('/')}//"], False

    with pytest.raises(StoreUnavailableError, match="//"):
        entries_of(Odd("memory", "odd", MemoryStore()), "wh/db.db")


@pytest.mark.parametrize("place", ["local"], indirect=True)
class TestLocalDisk:
    def path(self, place: Place, name: str) -> str:
        return place.uri(name).removeprefix("file://")

    def test_a_link_is_an_error_that_names_it(self, place: Place) -> None:
        put(place, "d/x", "e/x")
        os.symlink(self.path(place, "e"), self.path(place, "d/linked"))
        with pytest.raises(StoreUnavailableError, match="linked"):
            place.stores.entries(place.uri("d"))

    def test_a_linked_directory_is_an_error(self, place: Place) -> None:
        put(place, "e/x")
        os.symlink(self.path(place, "e"), self.path(place, "d"))
        with pytest.raises(StoreUnavailableError, match="symlink"):
            place.stores.entries(place.uri("d"))

    def test_a_name_that_cannot_be_carried_is_an_error(self, place: Place) -> None:
        put(place, "d/x")
        open(self.path(place, "d/a\nb"), "w").close()
        with pytest.raises(StoreUnavailableError, match=r"a\\x0ab"):
            place.stores.entries(place.uri("d"))

    def test_a_directory_name_that_cannot_be_carried_is_an_error(self, place: Place) -> None:
        put(place, "d/x")
        os.mkdir(self.path(place, "d/a\nb"))
        with pytest.raises(StoreUnavailableError, match=r"a\\x0ab"):
            place.stores.entries(place.uri("d"))

    def test_a_fifo_is_an_error(self, place: Place) -> None:
        put(place, "d/x")
        os.mkfifo(self.path(place, "d/pipe"))
        with pytest.raises(StoreUnavailableError, match="pipe"):
            place.stores.entries(place.uri("d"))

    def test_a_file_where_a_directory_should_be_is_an_error(self, place: Place) -> None:
        put(place, "d")
        with pytest.raises(StoreUnavailableError):
            place.stores.entries(place.uri("d"))
        with pytest.raises(StoreUnavailableError):
            place.stores.entries(place.uri("d/e"))
