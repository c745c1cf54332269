"""What goes through the gateway, byte for byte; what hostile clients send, and what breaks behind it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.raw import LOADED, TABLE, answer, commit, error_of, post, status_of
from tests.gateway.recorder import Recorder, recorder, talk
from tests.support.gateways import RunningGateway, gateway

SECRET = "Bearer s3cr3t-token-of-somebody"


def test_a_request_goes_on_as_it_came(running: RunningGateway, served: Recorder) -> None:
    served.answers[:] = [
        b"HTTP/1.1 418 Odd\r\nX-Two: 1\r\nx-two: 2\r\nContent-Encoding: gzip\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x00"
    ]
    asked = (
        b"GET /v1/p/namespaces/a%1Fb/tables/t%7C%2f?snapshots=refs&x=%20+ HTTP/1.1\r\nHost: gate.example\r\n"
        b"AUTHORIZATION: Bearer abc\r\nX-Twice: 1\r\nX-Twice: 2\r\nAccept-Encoding: gzip\r\nTE: trailers\r\n"
        b"Connection: close, X-Mine\r\nX-Mine: hop\r\n\r\n"
    )
    answered = talk(running.uri, asked)
    (heard,) = served.heard
    assert heard.startswith(b"GET /base/v1/p/namespaces/a%1Fb/tables/t%7C%2f?snapshots=refs&x=%20+ HTTP/1.1\r\n")
    assert b"Bearer abc" in heard
    assert heard.lower().count(b"x-twice: ") == 2
    assert b"gzip" in heard
    assert b"X-Mine" not in heard
    assert b"x-mine" not in heard
    assert b"trailers" not in heard
    assert f"host: 127.0.0.1:{served.port}".encode() in heard.lower()
    assert answered.startswith(b"HTTP/1.1 418 ")
    assert answered.lower().count(b"x-two: ") == 2
    assert b"x-hop" not in answered.lower()
    assert answered.endswith(b"\r\n\r\n\x1f\x8b\x00")


def test_head_delete_and_the_token_route_pass(running: RunningGateway, served: Recorder) -> None:
    served.answers[:] = [b"HTTP/1.1 204 No Content\r\n\r\n"]
    for line in ("HEAD /v1/p/namespaces/a", f"DELETE {TABLE}?purgeRequested=true"):
        assert status_of(talk(running.uri, f"{line} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n".encode())) == 204
    served.answers[:] = [answer(b'{"access_token": "x"}')]
    form = b"grant_type=client_credentials&client_secret=hidden"
    answered = talk(running.uri, post("/v1/oauth/tokens", form, "Content-Type: application/x-www-form-urlencoded"))
    assert answered.endswith(b'{"access_token": "x"}')
    assert served.heard[-1].endswith(form)
    assert "hidden" not in running.log.read_text()


def test_a_commit_goes_on_byte_for_byte_once_it_is_judged(running: RunningGateway, served: Recorder) -> None:
    body = b' {"updates" : [ {"action":"add-snapshot","snapshot":{"summary":{"team":"\\u00e9","operation":"append"}}} ] }\n'
    assert status_of(talk(running.uri, post(TABLE, body, f"Authorization: {SECRET}"))) == 200
    load, sent = served.heard
    assert load.startswith(b"GET /base" + TABLE.encode() + b"?snapshots=refs HTTP/1.1\r\n")
    assert SECRET.encode() in load
    assert sent.endswith(b"\r\n\r\n" + body)
    assert SECRET not in running.log.read_text()


def test_a_commit_in_chunks_is_judged_whole(running: RunningGateway, served: Recorder) -> None:
    def chunked(body: bytes) -> bytes:
        head = f"POST {TABLE} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        return head + b"".join(b"1\r\n" + body[i : i + 1] + b"\r\n" for i in range(len(body))) + b"0\r\n\r\n"

    assert (
        error_of(talk(running.uri, chunked(commit({"operation": "append"}))))["message"].count("team is missing") == 1
    )
    assert status_of(talk(running.uri, chunked(commit({"operation": "append", "team": "a"})))) == 200
    assert len(served.requests(b"POST ")) == 1


REFUSED = {
    "one good and one bad": commit({"team": "a"}, {"operation": "append"}),
    "an empty value": commit({"team": " "}),
    "no summary": b'{"updates": [{"action": "add-snapshot", "snapshot": {}}]}',
    "the case of an action": b'{"updates": [{"action": "Add-Snapshot", "snapshot": {}}]}',
    "an escaped action": b'{"updates": [{"action": "add\\u002dsnapshot", "snapshot": {}}]}',
    "the identifier too": commit({}, identifier={"namespace": ["a", "b"], "name": "t"}),
    "rules lifted": json.dumps(
        {
            "updates": [
                {"action": "remove-properties", "removals": ["lineage.required-keys"]},
                {"action": "add-snapshot", "snapshot": {}},
            ]
        }
    ).encode(),
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_a_commit_that_lacks_a_key_never_reaches_the_catalog(
    running: RunningGateway, served: Recorder, body: bytes
) -> None:
    found = error_of(talk(running.uri, post(TABLE, body)))
    assert found["type"] == "LineageError"
    assert "lake.a.b.t" in found["message"]
    assert "team is missing" in found["message"]
    assert served.requests(b"POST ") == []


def test_every_table_of_a_transaction_is_judged(running: RunningGateway, served: Recorder) -> None:
    def change(name: str, **summary: str) -> dict[str, Any]:
        one = {"action": "add-snapshot", "snapshot": {"summary": {"operation": "append", **summary}}}
        return {"identifier": {"namespace": ["a", "b"], "name": name}, "requirements": [], "updates": [one]}

    path = "/v1/p/transactions/commit"
    bad = json.dumps({"table-changes": [change("good", team="x"), change("bad one")]}).encode()
    assert "lake.a.b.bad one" in error_of(talk(running.uri, post(path, bad)))["message"]
    assert served.requests(b"GET /base/v1/p/namespaces/a%1Fb/tables/bad%20one?")
    assert served.requests(b"POST ") == []
    good = json.dumps({"table-changes": [change("good", team="x")]}).encode()
    assert status_of(talk(running.uri, post(path, good))) == 200
    nameless = json.dumps({"table-changes": [{"updates": change("x")["updates"]}]}).encode()
    assert error_of(talk(running.uri, post(path, nameless)))["message"].startswith("LW-GATEWAY-003")


HOSTILE = {
    "a path with dots": post("/v1/p/x/../namespaces/a/tables/t", commit({})),
    "an encoded path": post("/v1/p/namespaces%2Fa%2Ftables%2Ft", commit({})),
    "a second slash": post("/v1/p//namespaces/a/tables/t", commit({})),
    "a parameter of a path": post("/v1/p/namespaces/a/tables/t;x=1", commit({})),
    "another method inside": post(TABLE, commit({}), "X-HTTP-Method-Override: PUT").replace(b"POST", b"GET", 1),
    "the updates elsewhere": post("/v1/p/Namespaces/a/Tables/t", commit({"team": "a"})),
    "another table in the body": post(TABLE, commit({"team": "a"}, identifier={"namespace": ["x"], "name": "t"})),
    "the same key twice": post(TABLE, b'{"updates": [], "updates": [{"action": "add-snapshot", "snapshot": {}}]}'),
    "deep nesting": post(TABLE, b'{"updates": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    "no JSON": post(TABLE, b"updates"),
    "put": post(TABLE, commit({}), length=None).replace(b"POST", b"PUT", 1),
}


@pytest.mark.parametrize("request_bytes", HOSTILE.values(), ids=HOSTILE)
def test_what_cannot_be_judged_is_not_passed_on(
    running: RunningGateway, served: Recorder, request_bytes: bytes
) -> None:
    assert status_of(talk(running.uri, request_bytes)) == 400
    assert [one for one in served.heard if not one.startswith(b"GET /base/v1/p/namespaces")] == []


def test_http_1_0_and_a_commit_without_a_body(running: RunningGateway, served: Recorder) -> None:
    assert status_of(talk(running.uri, post(TABLE, commit({"team": "a"}), version="1.0"))) == 200
    served.answers[:] = [answer(b'{"error": {}}', b"400 Bad Request")]
    answered = talk(running.uri, post(TABLE, b""))
    assert status_of(answered) == 400
    assert answered.endswith(b'{"error": {}}')


def test_a_body_that_is_too_large_is_refused_by_name(running: RunningGateway, served: Recorder) -> None:
    body = commit({"team": "a", "x": "y" * (1 << 20)})
    answered = talk(running.uri, post(TABLE, body))
    assert error_of(answered)["message"].startswith("LW-GATEWAY-004")
    assert served.heard == []


@pytest.mark.parametrize("path", [TABLE, "/v1/p/transactions/commit"])
def test_a_client_that_hangs_up_commits_nothing(running: RunningGateway, served: Recorder, path: str) -> None:
    body = commit({"team": "a"})
    talk(running.uri, post(path, body[:-10], length=len(body)), hang_up=True)
    talk(running.uri, post(path, body[:-10], length=len(body)), half=True)
    assert status_of(talk(running.uri, post(TABLE, body))) == 200
    assert len(served.requests(b"POST ")) == 1


def test_half_an_upload_ends_as_half_an_upload(running: RunningGateway, served: Recorder) -> None:
    talk(running.uri, post("/v1/p/namespaces/a/views", b"{" * 1000, length=2000), half=True)
    assert served.requests(b"POST ") == []
    assert status_of(talk(running.uri, post("/v1/p/namespaces/a/views", b"{}"))) == 200


def test_two_lengths_are_no_way_to_smuggle_a_second_request(running: RunningGateway, served: Recorder) -> None:
    inner = post(TABLE, commit({}))
    both = f"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: {len(inner) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    talk(running.uri, both.encode() + inner, half=True)
    assert not served.requests(b"add-snapshot")
    twice = f"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\nContent-Length: {len(inner)}\r\n\r\n".encode()
    assert status_of(talk(running.uri, twice + inner, half=True)) == 400
    assert not served.requests(b"add-snapshot")


def test_clients_are_handed_the_gateways_address(running: RunningGateway, served: Recorder) -> None:
    own = f"{served.uri}/base"
    document = {
        "defaults": {"nessie.iceberg-base-uri": f"{own}/", "s3.endpoint": "http://store:9000"},
        "overrides": {
            "uri": "http://inner-name:1/iceberg/",
            "x": "http://inner-name:1/iceberg/v1",
            "prefix": "main|wh",
        },
    }
    served.answers[:] = [answer(json.dumps(document).encode())]
    asked = b"GET /v1/config?warehouse=wh HTTP/1.1\r\nHost: gate.example:81\r\nConnection: close\r\n\r\n"
    found = json.loads(talk(running.uri, asked).partition(b"\r\n\r\n")[2])
    assert found == {
        "defaults": {"nessie.iceberg-base-uri": "http://gate.example:81/", "s3.endpoint": "http://store:9000"},
        "overrides": {"uri": "http://gate.example:81/", "x": "http://gate.example:81/v1", "prefix": "main|wh"},
    }
    assert served.heard[0].startswith(b"GET /base/v1/config?warehouse=wh ")
    plain = b'{ "defaults":{},"overrides":{ } }'
    served.answers[:] = [answer(plain)]
    assert talk(running.uri, asked).endswith(plain), "bytes without an address of the catalog's stay as they are"
    served.answers[:] = [answer(b"<html>")]
    assert error_of(talk(running.uri, asked))["message"].startswith("LW-GATEWAY-002")


LOAD_ANSWERS = {
    "a server that fails": (answer(b"{}", b"500 Oops"), 503),
    "what is no table": (answer(b"[]"), 503),
    "who may not see it": (answer(b'{"error": {"code": 403}}', b"403 Forbidden"), 403),
    "who is not known": (answer(b'{"error": {"code": 401}}', b"401 Unauthorized"), 401),
}


@pytest.mark.parametrize(("loaded", "status"), LOAD_ANSWERS.values(), ids=LOAD_ANSWERS)
def test_where_the_rules_are_not_known_nothing_is_passed_on(
    running: RunningGateway, served: Recorder, loaded: bytes, status: int
) -> None:
    served.answers[:] = [loaded]
    assert status_of(talk(running.uri, post(TABLE, commit({"team": "a"})))) == status
    assert served.requests(b"POST ") == []


def test_a_new_table_has_the_rules_of_the_configuration(running: RunningGateway, served: Recorder) -> None:
    served.answers[:] = [answer(b"{}", b"404 Not Found")]
    made = commit({"operation": "append", "writer.id": "a"}, requirements=[{"type": "assert-create"}])
    assert "trigger.type is missing" in error_of(talk(running.uri, post(TABLE, made)))["message"]


def test_an_answer_that_is_lost_is_told_as_such(running: RunningGateway, served: Recorder) -> None:
    served.answers[:] = [answer(LOADED), None]
    found = error_of(talk(running.uri, post(TABLE, commit({"team": "a"}))))
    assert (found["code"], found["message"][:14]) == (502, "LW-GATEWAY-002")
    assert "may be done" in found["message"]
    served.answers[:] = [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf", None]
    assert not talk(running.uri, b"GET /v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n").endswith(b"0\r\n\r\n")


def test_a_catalog_that_is_down_is_told_as_such(tmp_path: Path) -> None:
    with recorder() as gone:
        uri = gone.uri
    with gateway(tmp_path, uri.replace("http://", "http://ana:hidden@")) as running:
        assert running.upstream == uri, "printed without the password"
        for asked in (
            b"GET /v1/config HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n",
            post(TABLE, commit({"a": "b"})),
        ):
            found = error_of(talk(running.uri, asked))
            assert (found["code"], found["message"][:14]) == (503, "LW-GATEWAY-001")
        assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


def test_an_answer_that_nobody_waits_for_is_let_go_of(tmp_path: Path) -> None:
    """A client that hangs up must not leave an answer running that has no end."""
    let_go = threading.Event()

    def endless(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(OSError):
                while True:
                    connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        let_go.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=endless, args=(listening,), daemon=True).start()
        with gateway(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}") as running:
            place = urlsplit(running.uri)
            with socket.create_connection((place.hostname or "", place.port or 0), timeout=10) as client:
                client.sendall(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n")
                assert client.recv(1000)
            assert let_go.wait(20)
            assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()
