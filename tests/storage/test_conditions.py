"""Conditional writes: each store's own way to say "only if", and no lease where a store does not keep to it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import obstore
import pytest

from lakewarden.ledger.leases import Leases
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import NoConditionsError
from lakewarden.storage.cas import Conflict, open_register
from lakewarden.storage.conditions import PROBE, prove_conditions
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.stores import Stores
from tests.storage.gcs import google_bucket
from tests.support.storage import Place


def ignoring(monkeypatch: pytest.MonkeyPatch, ignored: Callable[[Any], bool]) -> None:
    real = obstore.put

    def put(client: Any, key: str, data: bytes, *, mode: Any = "overwrite") -> Any:
        return real(client, key, data, mode="overwrite" if ignored(mode) else mode)

    monkeypatch.setattr(obstore, "put", put)


@pytest.mark.parametrize(
    "ignored",
    [lambda mode: mode == "create", lambda mode: isinstance(mode, dict), lambda mode: mode != "overwrite"],
    ids=["If-None-Match", "If-Match", "both"],
)
def test_a_store_that_ignores_conditions_gives_no_lease(
    monkeypatch: pytest.MonkeyPatch, ignored: Callable[[Any], bool]
) -> None:
    ignoring(monkeypatch, ignored)
    base = f"memory://m{uuid.uuid4().hex}/state/leases/"
    leases = Leases(Stores(), base, SystemClock(), "a")
    with pytest.raises(NoConditionsError, match="no lease is trusted"):
        leases.acquire("root/x", 60)
    assert leases.look("root/x") is None


def test_a_store_is_probed_once_and_before_the_first_write_only(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    if place.kind == "local":
        prove_conditions(place.stores, place.uri("x"))
        assert place.stores.head(place.uri(PROBE)) is None
        return
    store = place.stores.at(place.root)
    assert isinstance(store, ObjectStore)
    monkeypatch.setattr(store, "keeps_conditions", False)
    register = open_register(place.stores, place.uri("a.register"))
    assert register.read() is None
    assert place.stores.head(place.uri(PROBE)) is None
    token = register.write(b"1", None)
    first = place.stores.head(place.uri(PROBE))
    assert first is not None
    register.write(b"2", token)
    assert place.stores.head(place.uri(PROBE)) == first


def test_a_register_on_google_cloud_is_swapped_by_generation() -> None:
    with google_bucket() as stores:
        register = open_register(stores, "gs://lake/state/a.register")
        assert register.read() is None
        first = register.write(b"1", None)
        with pytest.raises(Conflict):
            register.write(b"other", None)
        found = register.read()
        assert found == (b"1", first)
        second = register.write(b"2", first)
        with pytest.raises(Conflict):
            register.write(b"late", first)
        assert register.read() == (b"2", second)


def test_a_lease_on_google_cloud_can_be_renewed() -> None:
    with google_bucket() as stores:
        lease = Leases(stores, "gs://lake/state/leases/", SystemClock(), "a").acquire("root/x", 60)
        lease.renew()
        lease.renew()
        lease.release()


@pytest.mark.parametrize(
    ("scheme", "condition"),
    [
        ("gs", {"e_tag": '"a"', "version": "17"}),
        ("s3", {"e_tag": '"a"'}),
        ("az", {"e_tag": '"a"'}),
        ("abfs", {"e_tag": '"a"'}),
    ],
)
def test_a_condition_has_a_version_only_where_the_store_swaps_by_it(scheme: str, condition: dict[str, str]) -> None:
    """Azure's client takes a version that is None for a mistake."""
    store = ObjectStore(scheme, "b", None)
    for version in ("17", None) if scheme != "gs" else ("17",):
        assert store._condition(store._token({"e_tag": '"a"', "version": version})) == condition
