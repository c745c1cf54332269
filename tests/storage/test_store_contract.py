"""What every store must do, on memory, local disk and a real S3 server."""

from __future__ import annotations

import pickle
import unicodedata
import uuid
from datetime import UTC, datetime, timedelta

import obstore
import pytest

from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import ConfigError, StoreUnavailableError
from lakewarden.model.ports import Shard
from lakewarden.model.uri import FileUri
from lakewarden.storage.clock import skew, store_time
from lakewarden.storage.listing import LISTING_SCHEMA, list_shard
from lakewarden.storage.store import Ambiguous
from lakewarden.storage.stores import Stores
from tests.support.storage import Place, Seaweed

AWKWARD = [
    "a%20b", "a b", "a+b", "a#1", "a#12", "a#x", "100%", "a%2Fb", "ü", "x=1/ts=2024-01-01T00%3A00/f.parquet",
    unicodedata.normalize("NFC", "é") + ".parquet", unicodedata.normalize("NFD", "é") + ".avro", "[1]*?.parquet",
]  # fmt: skip


def key(uri: str) -> str:
    return FileUri.parse(uri).key


def listed(place: Place, **bounds: object) -> dict[str, dict[str, object]]:
    rows = [row for b in list_shard(place.stores, Shard(0, place.root, **bounds)) for row in b.to_pylist()]  # type: ignore[arg-type]
    return {row["key"]: row for row in rows}


@pytest.mark.parametrize("name", AWKWARD)
def test_names_are_taken_as_stored(place: Place, name: str) -> None:
    uri = place.uri(name)
    place.stores.put(uri, b"bytes")
    assert place.stores.get(uri) == b"bytes"
    found = listed(place)
    assert set(found) == {uri}
    stat = place.stores.head(uri)
    assert stat is not None
    assert (stat.key, stat.size, stat.etag) == (key(uri), 5, found[uri]["etag"])
    assert found[uri]["flag"] is None


def test_all_awkward_names_together_stay_apart(place: Place) -> None:
    for i, name in enumerate(AWKWARD):
        place.stores.put(place.uri(name), str(i).encode())
    assert set(listed(place)) == {place.uri(name) for name in AWKWARD}
    assert [place.stores.get(place.uri(name)) for name in AWKWARD] == [str(i).encode() for i in range(len(AWKWARD))]


def test_absent_is_file_not_found(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.stores.get(place.uri("nothing"))
    assert place.stores.head(place.uri("nothing")) is None


def test_get_many_keeps_order_and_errors(place: Place) -> None:
    for i in range(20):
        place.stores.put(place.uri(f"f{i}"), str(i).encode())
    uris = [place.uri(f"f{i}") for i in (3, 19, 0)] + [place.uri("gone"), place.uri("f7")]
    found = place.stores.get_many(uris)
    assert found[:3] == [b"3", b"19", b"0"]
    assert isinstance(found[3], FileNotFoundError)
    assert found[4] == b"7"


def test_ranges_copy_and_streams(place: Place) -> None:
    store = place.stores.at(place.root)
    a, b, c = (key(place.uri(name)) for name in "abc")
    store.put(a, b"0123456789")
    assert store.get_range(a, 3, 4) == b"3456"
    assert store.get_range(a, 3, 0) == b""
    room = bytearray(4)
    assert store.read_into(a, memoryview(room)) == 4
    assert room == b"0123"
    assert store.read_into(a, memoryview(bytearray(100))) == len(store.get(a))
    store.copy(a, b)
    assert store.get(b) == b"0123456789"
    store.put_stream(c, iter([b"01", b"23"]))
    assert b"".join(store.stream(c)) == b"0123"
    with pytest.raises(FileNotFoundError):
        store.copy(key(place.uri("none")), b)
    assert store.get(b) == b"0123456789"


def test_create_is_create_only(place: Place) -> None:
    assert place.stores.create(place.uri("once"), b"first") is True
    assert place.stores.create(place.uri("once"), b"second") is False
    assert place.stores.create(place.uri("once"), b"first") is False
    assert place.stores.get(place.uri("once")) == b"first"


def test_listing_bounds_and_direct(place: Place) -> None:
    names = ["a/1", "a/2", "b/1", "b-x", "c", "d/e/f"]
    for name in names:
        place.stores.put(place.uri(name), b"x")
    base = key(place.root)
    assert {k.removeprefix(place.root) for k in listed(place, after=f"{base}a/1", until=f"{base}b/1")} == {
        "a/2", "b-x", "b/1",
    }  # fmt: skip
    assert {k.removeprefix(place.root) for k in listed(place, direct=True)} == {"b-x", "c"}
    children, truncated = place.stores.at(place.root).children(base)
    assert (children, truncated) == ([f"{base}a/", f"{base}b/", f"{base}d/"], False)


def test_listing_has_the_schema_and_neighbours_stay_out(place: Place) -> None:
    place.stores.put(place.uri("f"), b"abc")
    place.stores.put(place.root.rstrip("/") + "_v2/f", b"abc")
    batches = list(list_shard(place.stores, Shard(0, place.root)))
    assert [b.schema for b in batches] == [LISTING_SCHEMA]
    row = batches[0].to_pylist()[0]
    assert (row["key"], row["size"], row["flag"]) == (place.uri("f"), 3, None)
    assert abs(row["modified"] - datetime.now(UTC)) < timedelta(minutes=1)


def test_missing_directory_is_empty_but_a_missing_store_is_not(place: Place) -> None:
    assert list(list_shard(place.stores, Shard(0, place.root + "nowhere/"))) == []


def test_missing_bucket_is_said(seaweed: Seaweed) -> None:
    stores = Stores({"s3://no-such-bucket": seaweed.options()})
    rows = [r for b in list_shard(stores, Shard(0, "s3://no-such-bucket/t/")) for r in b.to_pylist()]
    assert [row["flag"] for row in rows] == ["unlistable: missing"]
    assert stores.at("s3://no-such-bucket/").exists_root() is False


def test_missing_mount_is_said(tmp_path: object) -> None:
    stores = Stores({f"file://{tmp_path}/mnt": {}})
    rows = [r for b in list_shard(stores, Shard(0, f"file://{tmp_path}/mnt/t/")) for r in b.to_pylist()]
    assert [row["flag"] for row in rows] == ["unlistable: missing"]


@pytest.mark.parametrize("name", ["a/../b", "a//b", "./a", "a/", "a\x01b"])
def test_keys_that_a_store_would_rewrite_are_refused(place: Place, name: str) -> None:
    store = place.stores.at(place.root)
    for call in (store.get, store.head, lambda k: store.put(k, b""), lambda k: store.create(k, b"")):
        with pytest.raises(StoreUnavailableError):
            call(f"{key(place.root)}{name}")


def test_store_clock(place: Place) -> None:
    seen = store_time(place.stores, place.root, "host/1")
    assert abs(seen - datetime.now(UTC)) < timedelta(seconds=5)
    assert place.stores.head(place.uri(".lakewarden/clock-host_1")) is not None
    assert abs(skew(place.stores, place.root, "host/1", SystemClock())) < timedelta(seconds=3)


def options_of(stores: Stores, uri: str) -> dict[str, str]:
    return stores._ways.to(FileUri.parse(uri), None)[1]


def test_stores_pickle_and_hide_secrets() -> None:
    secret = {"access_key_id": "a", "secret_access_key": "hush"}
    stores = Stores({"s3://bucket": secret, "s3a://bucket/deep": {"region": "q"}})
    again = pickle.loads(pickle.dumps(stores))
    assert options_of(again, "s3://bucket/x") == secret
    assert options_of(again, "s3://bucket/deep/x") == {"region": "q"}
    assert options_of(again, "s3://bucket2/x") == {}
    assert "hush" not in repr(stores)
    assert "hush" not in repr(vars(stores))
    assert "hush" not in repr(stores.at("s3://bucket/x"))
    everywhere = Stores({"s3://": {"region": "r"}, "file:///": {}})
    assert options_of(everywhere, "s3://any/x") == {"region": "r"}
    assert everywhere.at("file:///tmp").exists_root()


def test_unknown_options_and_dead_endpoints_have_names() -> None:
    with pytest.raises(ConfigError, match="no_such_option"):
        Stores({"s3://bucket": {"no_such_option": "hush"}}).at("s3://bucket/x")
    with pytest.raises(StoreUnavailableError):
        Stores().at("hdfs://nn/x")
    options = {"endpoint": "http://127.0.0.1:9", "access_key_id": "a", "secret_access_key": "hush", "region": "r"}
    with pytest.raises(StoreUnavailableError) as caught:
        Stores({"s3://dead": options}).get("s3://dead/x")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("applied", [True, False])
def test_a_create_that_failed_half_way_is_never_misreported(monkeypatch: pytest.MonkeyPatch, applied: bool) -> None:
    """The store applied our write but its answer was lost: that is neither ours for sure nor another's."""
    real, failures = obstore.put, [1]

    def put(client: object, path: str, data: bytes, **options: object) -> object:
        if failures and failures.pop():
            if applied:
                real(client, path, data, **options)  # type: ignore[call-overload]
            raise OSError("connection reset")
        return real(client, path, data, **options)  # type: ignore[call-overload]

    stores, uri = Stores(), f"memory://m{uuid.uuid4().hex}/once"
    monkeypatch.setattr(obstore, "put", put)
    if applied:
        with pytest.raises(Ambiguous):
            stores.create(uri, b"mine")
    else:
        assert stores.create(uri, b"mine") is True
    assert stores.get(uri) == b"mine"
