"""Credentials that a catalog's server hands out anew at every look: the newest are used, and no client is left behind."""

from __future__ import annotations

import pytest

from lakewarden.storage import stores as module
from lakewarden.storage.stores import Stores


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_opened", {})
    monkeypatch.setattr(module, "MOST_OPENED", 8)


def vended(number: int) -> dict[str, str]:
    return {"access_key_id": f"key-{number}", "secret_access_key": "s", "session_token": f"t-{number}", "region": "r"}


def test_the_newest_are_used_and_old_clients_are_let_go() -> None:
    stores = Stores()
    seen = []
    for number in range(40):
        stores.add("s3://lake/orders", vended(number), "rest")
        seen.append(stores.at("s3://lake/orders/data/a.parquet"))
        assert stores.at("s3://lake/orders/data/b.parquet") is seen[-1], "one client as long as nothing is renewed"
    assert len(set(map(id, seen))) == 40
    assert len(module._opened) == 8
    (_, options) = list(module._opened)[-1]
    assert dict(options)["session_token"] == "t-39"


def test_what_is_asked_for_again_and_again_stays_open() -> None:
    stores = Stores({"s3://state": vended(0)})
    kept = stores.at("s3://state/leases/x")
    for number in range(1, 40):
        stores.add("s3://lake/orders", vended(number), "rest")
        stores.at("s3://lake/orders/a")
        assert stores.at("s3://state/leases/x") is kept
