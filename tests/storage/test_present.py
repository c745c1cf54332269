"""Looking at a batch: the same answers as looking at each object, with far fewer calls where names lie together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakewarden.model.ports import Stat
from lakewarden.storage import present
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.present import look
from tests.support.storage import Place

DIRECTORIES = ("p=0", "p=1", "p=1/deep", "p=2")


@pytest.fixture(params=[1000, 7])
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(present, "PAGE", request.param)
    monkeypatch.setattr(present, "_LOOKS_A_PAGE", 2)
    return int(request.param)


class Counted:
    """How many objects were looked at one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[str] = []
        real = ObjectStore.head_many

        def head_many(store: ObjectStore, keys: Sequence[str]) -> list[Stat | Exception | None]:
            self.keys.extend(keys)
            return real(store, keys)

        monkeypatch.setattr(ObjectStore, "head_many", head_many)


def opened(place: Place) -> tuple[ObjectStore, str]:
    if place.kind == "local":
        pytest.skip("a local disk is not looked at beforehand")
    store = place.stores.at(place.root)
    assert isinstance(store, ObjectStore)
    return store, place.root.split("/", 3)[3]


def test_pages_answer_like_single_looks(place: Place, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store, root = opened(place)
    names = [f"{root}{directory}/{i:02}-é#1.parquet" for directory in DIRECTORIES for i in range(12)]
    for number, key in enumerate(names):
        store.put(key, b"x" * (number + 1))
    wanted = [*names[::2], f"{root}p=1/00-absent", f"{root}p=9/absent"]
    expected = store.head_many(wanted)
    counted = Counted(monkeypatch)
    found = look(store, wanted)
    assert [f and (f.key, f.size, f.etag) for f in found if not isinstance(f, Exception)] == [
        e and (e.key, e.size, e.etag) for e in expected if not isinstance(e, Exception)
    ]
    assert {f"{root}p=1/00-absent", f"{root}p=9/absent"} <= set(counted.keys)
    assert len(counted.keys) <= 4


def test_scattered_names_are_looked_at_by_themselves(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that shows less than it costs is not followed by another."""
    store, root = opened(place)
    monkeypatch.setattr(present, "PAGE", 5)
    monkeypatch.setattr(present, "_LOOKS_A_PAGE", 3)
    names = [f"{root}d/{i:02}" for i in range(40)]
    for key in names:
        store.put(key, b"x")
    counted = Counted(monkeypatch)
    found = look(store, names[::8])
    assert [f.key for f in found if isinstance(f, Stat)] == names[::8]
    assert len(counted.keys) == 4


def test_a_marker_is_not_taken_for_the_file_of_its_name(place: Place, page: int) -> None:
    """`t/z/` is listed as `t/z`: only a look at `t/z` itself says that it is not there."""
    store, root = opened(place)
    if place.kind != "s3":
        pytest.skip("only S3 has such names")
    assert store.s3 is not None
    names = [f"{root}t/{i}" for i in range(5)]
    for key in names:
        store.put(key, b"x")
    store.s3.client.put_object(Bucket=store.bucket, Key=f"{root}t/z/", Body=b"")
    found = look(store, [*names, f"{root}t/z"])
    assert found[-1] is None
    assert all(isinstance(f, Stat) for f in found[:-1])
