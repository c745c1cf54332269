"""A writer beats over HTTP, through a real server, and a plan's rules see it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient

import lakewarden
from lakewarden.model.errors import ArgumentError, LakewardenError, StateError
from lakewarden.model.service import Role
from lakewarden.service.app import create_app
from lakewarden.service.service import Service
from tests.support.service import bearer, client_of, service_in, token

TABLE, PLACE = "prod.sales.orders", "s3://lake/orders/"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    found = service_in(tmp_path)
    yield found
    found.warden.close()


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    """The service behind a real server on a free port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_a_writer_is_at_work_while_the_block_is_open(service: Service, url: str) -> None:
    allowed = token(service, Role.OPERATOR)
    beats = service.ledger.heartbeats
    with lakewarden.heartbeat(TABLE, url=url, token=allowed, writer="a/b c", prefix=PLACE, ttl_seconds=1):
        [first] = beats.live(service.clock.now())
        assert (first.writer, first.table, first.prefix) == ("a/b c", TABLE, PLACE)
        deadline = time.monotonic() + 20
        while (again := beats.live(service.clock.now())) and again[0].beat_at == first.beat_at:
            assert time.monotonic() < deadline, "no second beat came"
            time.sleep(0.05)
        assert again[0].since == first.since, "what was written since the first beat is covered"
    assert beats.live(service.clock.now()) == beats.every() == []
    [after] = beats.records(service.clock.now())
    assert (after.made_by, after.ended_by, after.beat.since) == ("a-operator", "a-operator", first.since)


def test_a_writer_that_is_not_protected_knows(service: Service, url: str) -> None:
    with (
        pytest.raises(LakewardenError, match="role operator") as refused,
        lakewarden.heartbeat(TABLE, url=url, token=token(service, Role.VIEWER), prefix=PLACE),
    ):
        pytest.fail("the block was entered")
    assert refused.value.code == "LW-SERVICE-002"
    with (
        pytest.raises(StateError, match="did not answer") as silent,
        lakewarden.heartbeat(TABLE, url="http://127.0.0.1:9", token="t"),
    ):
        pytest.fail("the block was entered")
    assert "lakewarden serve" in silent.value.hint
    for wrong in ({"url": "ftp://x", "token": "t"}, {"url": url}, {"url": url, "token": ""}):
        with pytest.raises(ArgumentError):
            lakewarden.heartbeat(TABLE, **wrong)


def test_a_service_that_goes_away_does_not_end_the_writer(service: Service, url: str) -> None:
    with lakewarden.heartbeat(TABLE, url=url, token=token(service, Role.OPERATOR), prefix=PLACE):
        service.ledger.tokens.revoke("a-operator")
    assert len(service.ledger.heartbeats.every()) == 1, "it could not be ended, and protects for a while"


def test_straight_to_the_state(service: Service, tmp_path: Path) -> None:
    config = tmp_path / "lakewarden.toml"
    with lakewarden.heartbeat(TABLE, config=config, writer="w", prefix=PLACE):
        assert [beat.writer for beat in service.ledger.heartbeats.live(service.clock.now())] == ["w"]
    assert service.ledger.heartbeats.every() == []


def test_beats_are_listed_and_ended_by_table(service: Service) -> None:
    client, headers = client_of(service), bearer(token(service, Role.OPERATOR))
    for table in ("c.n.a", "c.n.b"):
        beat = client.put("/api/v1/heartbeats/w", headers=headers, json={"table": table, "prefix": "s3://b/" + table})
        assert beat.status_code == 200, beat.text
    listed = client.get("/api/v1/heartbeats").json()["heartbeats"]
    assert [(one["table"], one["silent"]) for one in listed] == [("c.n.a", False), ("c.n.b", False)]
    assert client.delete("/api/v1/heartbeats/w?table=c.n.a", headers=headers).json() == {"ended": 1}
    assert client.delete("/api/v1/heartbeats/w?table=c.n.a", headers=headers).status_code == 404
    assert client.delete("/api/v1/heartbeats/w", headers=headers).json() == {"ended": 1}
    for body in (
        {"table": "c.n.a", "prefix": "not an address"},
        {"table": "c.n.a", "prefix": "s3://b", "ttl_seconds": 0},
    ):
        assert client.put("/api/v1/heartbeats/w", headers=headers, json=body).status_code in (400, 422)
    assert all(one["silent"] for one in client.get("/api/v1/heartbeats").json()["heartbeats"])
    unknown = client.put("/api/v1/heartbeats/w", headers=headers, json={"table": "no.such.table"})
    assert unknown.status_code == 404
    assert service.ledger.heartbeats.every() == []


def begun(client: TestClient, name: str, headers: Mapping[str, str]) -> None:
    body = {"table": TABLE, "prefix": PLACE, "ttl_seconds": 600}
    assert client.put(f"/api/v1/heartbeats/{name}", headers=headers, json=body).status_code == 200


def test_a_heartbeat_is_ended_by_whoever_began_it_or_by_an_approver(service: Service) -> None:
    """Ended by anybody, it would leave the files that another writer has not committed yet to the next plan."""
    client = client_of(service)
    ada, bob = (bearer(token(service, Role.OPERATOR, name)) for name in ("ada", "bob"))
    eve = bearer(token(service, Role.APPROVER, "eve"))
    begun(client, "w", ada)
    refused = client.delete("/api/v1/heartbeats/w", headers=bob)
    assert (refused.status_code, refused.json()["code"]) == (403, "LW-SERVICE-002")
    begun(client, "w", bob)
    assert client.delete("/api/v1/heartbeats/w", headers=bob).status_code == 403, "who goes on beating did not begin it"
    assert client.delete("/api/v1/heartbeats/w", headers=ada).json() == {"ended": 1}
    [shown] = client.get("/api/v1/heartbeats").json()["heartbeats"]
    assert (shown["made_by"], shown["ended_by"], shown["silent"]) == ("ada", "ada", True)
    assert [beat.prefix for beat in service.ledger.heartbeats.protecting(service.clock.now())] == [PLACE]
    begun(client, "w", ada)
    assert client.delete("/api/v1/heartbeats/w", headers=eve).json() == {"ended": 1}
    assert client.get("/api/v1/heartbeats").json()["heartbeats"][0]["ended_by"] == "eve"


def test_what_a_writer_began_in_the_state_is_no_operators_to_end(service: Service, tmp_path: Path) -> None:
    client = client_of(service)
    bob = bearer(token(service, Role.OPERATOR, "bob"))
    with lakewarden.heartbeat(TABLE, config=tmp_path / "lakewarden.toml", writer="w", prefix=PLACE):
        begun(client, "w", bob)
        assert client.delete("/api/v1/heartbeats/w", headers=bob).status_code == 403
