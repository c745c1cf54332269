"""Endpoints and credentials belong to a catalog: its tables are reached by them, and never by another's."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakewarden.model.errors import ContestedStoreError
from lakewarden.storage.stores import Stores

HERE = {"endpoint": "http://127.0.0.1:1", "access_key_id": "a", "secret_access_key": "x"}
THERE = {"endpoint": "http://127.0.0.1:2", "access_key_id": "b", "secret_access_key": "y"}


def reached(stores: Stores, uri: str) -> Any:
    return vars(vars(stores.at(uri))["s3"])["_options"].get("endpoint")


def two(said: dict[str, dict[str, str]] | None = None) -> tuple[Stores, Stores, Stores]:
    stores = Stores(said or {}, {"one": HERE, "other": THERE})
    return stores, stores.of("one"), stores.of("other")


def test_each_catalog_reaches_its_own_bucket() -> None:
    stores, one, other = two()
    assert (reached(one, "s3://a/t"), reached(other, "s3://b/t")) == (HERE["endpoint"], THERE["endpoint"])
    # Listings and deletes know no catalog: a bucket is its catalog's, in every process.
    for view in (stores, pickle.loads(pickle.dumps(stores))):
        assert (reached(view, "s3://a/x"), reached(view, "s3://b/x")) == (HERE["endpoint"], THERE["endpoint"])


def test_one_bucket_name_of_two_catalogs_is_nobodys() -> None:
    stores, one, other = two()
    one.at("s3://a/t")
    with pytest.raises(ContestedStoreError, match="catalogs one and other"):
        other.at("s3://a/t2")
    for view in (stores, one, other, pickle.loads(pickle.dumps(stores))):
        with pytest.raises(ContestedStoreError):
            view.at("s3://a/t")


def test_the_configuration_settles_it() -> None:
    stores, one, other = two({"s3://a": {"endpoint": "http://127.0.0.1:3"}})
    stores.claim("s3://a/wh", "one")
    stores.claim("s3://a/wh", "other")
    assert {reached(view, "s3://a/t") for view in (stores, one, other)} == {"http://127.0.0.1:3"}


def test_warehouses_in_one_bucket_are_known_before_anything_is_read() -> None:
    stores, one, _ = two()
    stores.claim("s3://a/wh", "one")
    stores.claim("s3://a/other", "other")
    with pytest.raises(ContestedStoreError):
        one.at("s3://a/wh/t")


def test_a_bucket_of_which_nobody_speaks_is_not_guessed() -> None:
    stores, one, _ = two()
    with pytest.raises(ContestedStoreError, match="neither"):
        stores.at("s3://state/x")
    one.at("s3://state/x")
    assert reached(stores, "s3://state/x") == HERE["endpoint"]


def test_catalogs_that_agree_share_everything() -> None:
    stores = Stores({}, {"one": HERE, "other": {**HERE, "region": "eu-west-1"}, "local": {}})
    stores.of("one").at("s3://a/t")
    stores.of("other").at("s3://a/t")
    assert reached(stores, "s3://never-asked/x") == HERE["endpoint"]


def test_a_catalog_without_properties_is_reached_by_the_environment() -> None:
    stores = Stores({}, {"one": HERE, "plain": {}})
    assert reached(stores.of("plain"), "s3://b/t") is None
    with pytest.raises(ContestedStoreError):
        stores.of("one").at("s3://b/t")
    with pytest.raises(ContestedStoreError):
        stores.at("s3://never-asked/x")


def test_what_a_server_hands_out_serves_its_own_catalog() -> None:
    stores, one, other = two()
    stores.add("s3://a/t", {**HERE, "session_token": "1"}, "one")
    stores.add("s3://a/t", {**HERE, "session_token": "2"}, "one")
    assert vars(vars(one.at("s3://a/t/f"))["s3"])["_options"]["session_token"] == "2"
    with pytest.raises(ContestedStoreError):
        other.at("s3://a/t/f")
    with pytest.raises(ContestedStoreError):
        one.at("s3://a/t/f")


def test_errors_of_one_store_are_its_own_files_errors() -> None:
    stores, one, other = two()
    one.at("s3://a/t")
    memory = "memory://ways/x"
    stores.put(memory, b"1")
    first, second = other.get_many([memory, "s3://a/t/f"])
    assert (first, type(second)) == (b"1", ContestedStoreError)
