"""Ways around the gateway: what the catalog would take for a commit, or for another table, than the gateway does."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakewarden.model.lineage import REQUIRED
from tests.gateway.load import IN_MEMORY, Client, append
from tests.gateway.load import TABLE as NEW
from tests.gateway.raw import LOADED, TABLE, answer, commit, error_of, post, status_of
from tests.gateway.recorder import Recorder, recorder, talk
from tests.support.gateways import RULES, RunningGateway, gateway
from tests.support.rest import Serve

GOOD = commit({"team": "a"})


def get(path: str, *fields: str, method: str = "GET") -> bytes:
    return "\r\n".join(
        [f"{method} {path} HTTP/1.1", "Host: gate.example", "Connection: close", *fields, "", ""]
    ).encode()


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/../api/v2/trees", "/%2e%2e/api/v2/trees", "/v1/.%2E/../api/v2/trees", "/v1/..;x=1/../api", "/%2e%2e%2fapi",
        "/..%5capi", "/%252e%252e/api", "/v1/./config",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_catalogs_own_address(
    running: RunningGateway, served: Recorder, path: str, method: str
) -> None:
    assert error_of(talk(running.uri, get(path, method=method)))["message"].startswith("LW-GATEWAY-003")
    assert served.heard == []


def test_names_with_dots_in_them_are_names(running: RunningGateway, served: Recorder) -> None:
    for name in ("a.b", "...", "x..y", ".hidden"):
        assert status_of(talk(running.uri, get(f"/v1/p/namespaces/{name}"))) == 200
    assert len(served.heard) == 4


# In Shift_JIS the backslash is the second half of a letter, so the quote after it ends the text, and the document.
TWO_DOCUMENTS = (
    b'{"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "timestamp-ms": %d, '
    b'"sequence-number": 1, "manifest-list": "file:///x", "schema-id": 0, "summary": {"operation": "append", '
    b'"a": "\xe3\x81\x83\\"}}}]} ", "writer.id": "w", "trigger.type": "schedule", "team": "a"}}]}'
)


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=Shift_JIS", "application/json;CHARSET=utf-16", "application/json; charset=utf-8; charset=gbk",
        "application/json; charset*=us-ascii'en'gbk", 'application/json; charset="big5"',
    ],
)  # fmt: skip
def test_a_commit_is_read_in_the_letters_in_which_it_is_judged(
    running: RunningGateway, served: Recorder, kind: str
) -> None:
    assert "letters" in error_of(talk(running.uri, post(TABLE, GOOD, f"Content-Type: {kind}")))["message"]
    assert served.heard == []


@pytest.mark.parametrize("kind", ["application/json", "application/json;charset=UTF-8", 'a/b; charset="utf-8"'])
def test_utf_8_may_be_said(running: RunningGateway, served: Recorder, kind: str) -> None:
    assert status_of(talk(running.uri, post(TABLE, GOOD, f"Content-Type: {kind}"))) == 200
    assert len(served.heard) == 2


def test_apaches_catalog_is_not_told_otherwise_by_letters_and_words_for_operations(
    serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against the real server: it reads letters as it is told, and takes a snapshot without an operation for an overwrite."""
    place = tmp_path_factory.mktemp("around")
    upstream = serve({**IN_MEMORY, "warehouse": f"file://{place}/warehouse"})
    with gateway(place / "gateway", upstream.uri, RULES) as running:
        client = Client(running.uri)
        assert client.ask("POST", "/v1/namespaces", {"namespace": ["db"]})[0] == 200
        assert client.ask("POST", "/v1/namespaces/db/tables", {**NEW, "name": "t"})[0] == 200
        path = "/v1/namespaces/db/tables/t"
        body = TWO_DOCUMENTS % 1_790_000_000_000
        assert (
            status_of(talk(running.uri, post(path, body, "Content-Type: application/json; charset=Shift_JIS"))) == 400
        )
        said = {"writer.id": "w", "trigger.type": "schedule"}
        for word in ("OVERWRITE", " overwrite", "rewrite", "compact", "Analyze", None):
            document = append(1, "file:///x", 1, None, **said)
            summary = document["updates"][0]["snapshot"]["summary"]
            summary["operation"] = word
            if word is None:
                del summary["operation"]
            status, answered = client.ask("POST", path, document)
            assert (status, b"trigger.ticket is missing" in answered) == (400, True), word
        client.close()
        assert json.loads(Client(upstream.uri).ask("GET", path)[1])["metadata"].get("snapshots", []) == []


@pytest.mark.parametrize("updates", [{"action": "add-snapshot", "snapshot": {}}, "x", 1, None])
def test_updates_that_are_no_list_are_not_passed_on(running: RunningGateway, served: Recorder, updates: Any) -> None:
    """Some servers take one thing for a list of one."""
    for path, body in (
        (TABLE, {"requirements": [], "updates": updates}),
        ("/v1/p/transactions/commit", {"table-changes": updates}),
    ):
        assert status_of(talk(running.uri, post(path, json.dumps(body).encode()))) == (400 if updates else 200)
    assert len(served.heard) == (0 if updates else 2)


def test_a_table_that_the_catalog_does_not_show_is_not_taken_for_a_new_one(
    running: RunningGateway, served: Recorder
) -> None:
    """A transaction may spell its namespace so that the gateway asks for another table than the catalog changes."""
    served.answers[:] = [answer(b'{"error": {"code": 404}}', b"404 Not Found")]
    said = {"operation": "append", "writer.id": "a", "trigger.type": "schedule"}
    assert status_of(talk(running.uri, post(TABLE, commit(said)))) == 404
    assert served.requests(b"POST ") == []
    create = json.loads(commit(said)) | {"requirements": [{"type": "assert-create"}]}
    talk(running.uri, post(TABLE, json.dumps(create).encode()))
    assert len(served.requests(b"POST ")) == 1


def register(**more: Any) -> bytes:
    document = {"name": "t", "metadata-location": "s3://b/x.metadata.json", **more}
    return post("/v1/p/namespaces/a%1Fb/register", json.dumps(document).encode())


def test_a_table_with_rules_is_not_replaced_by_registering_another_history(
    running: RunningGateway, served: Recorder
) -> None:
    for odd in (True, "true", 1):
        found = error_of(talk(running.uri, register(overwrite=odd)))
        assert "lake.a.b.t" in found["message"]
        assert "the history that is registered in its place cannot be judged" in found["message"]
    assert served.requests(b"POST ") == []
    assert status_of(talk(running.uri, register())) == 200
    assert status_of(talk(running.uri, register(overwrite=False))) == 200
    free = dict.fromkeys([REQUIRED, f"{REQUIRED}.overwrite", f"{REQUIRED}.delete"], "")
    served.answers[:] = [answer(json.dumps({"metadata": {"properties": free}}).encode())]
    assert status_of(talk(running.uri, register(overwrite=True))) == 200
    assert len(served.requests(b"POST ")) == 3


OVERRIDE = """
[[overrides]]
match = "lake.db.in.orders"
[overrides.lineage]
required_keys = ["project"]
"""


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with (
        recorder(answer(b'{"metadata": {"properties": {}}}')) as behind,
        gateway(tmp_path_factory.mktemp("narrow"), behind.uri, OVERRIDE) as found,
    ):
        yield found


@pytest.mark.parametrize("separator", ["%1F", "."])
@pytest.mark.parametrize(
    "name", ["orders", "orders@main", "orders%40dev", "%60orders%60@main", "orders%23abc", "orders@x%23y"]
)
def test_a_table_has_its_rules_on_whichever_branch_of_the_catalog(
    narrow: RunningGateway, name: str, separator: str
) -> None:
    """Nessie takes `table@branch` for the table."""
    found = error_of(
        talk(narrow.uri, post(f"/v1/main/namespaces/db{separator}in/tables/{name}", commit({"operation": "append"})))
    )
    assert "project is missing" in found["message"]


def test_a_body_that_is_framed_twice_is_refused(running: RunningGateway, served: Recorder) -> None:
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    for path in (TABLE, "/v1/views"):
        head = f"POST {path} HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        assert error_of(talk(running.uri, head.encode() + chunked))["message"].startswith("LW-GATEWAY-003")
    assert served.heard == []


def test_a_redirect_leads_to_the_gateway(running: RunningGateway, served: Recorder) -> None:
    for place in (f"{served.uri}/base/v1/y?a=b", "/base/v1/y?a=b"):
        served.answers[:] = [f"HTTP/1.1 307 Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()]
        assert b"\r\nLocation: /v1/y?a=b\r\n" in talk(running.uri, get("/v1/x"))
    served.answers[:] = [b"HTTP/1.1 307 Moved\r\nLocation: http://elsewhere/base/x\r\nContent-Length: 0\r\n\r\n"]
    assert b"\r\nLocation: http://elsewhere/base/x\r\n" in talk(running.uri, get("/v1/x"))


def test_a_configuration_that_comes_packed_is_rewritten_too(running: RunningGateway, served: Recorder) -> None:
    packed = gzip.compress(b'{"defaults": {}, "overrides": {"uri": "http://inner:1/"}}')
    served.answers[:] = [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(packed), packed)
    ]
    head, _, body = talk(running.uri, get("/v1/config", "Accept-Encoding: gzip")).partition(b"\r\n\r\n")
    assert b"content-encoding" not in head.lower()
    assert json.loads(body)["overrides"] == {"uri": "http://gate.example/"}
    assert b"accept-encoding: identity" in served.heard[0].lower()


def test_what_the_catalog_says_to_a_client_it_does_not_take_comes_back_whole(
    running: RunningGateway, served: Recorder
) -> None:
    for status in (b"401 Unauthorized", b"429 Slow down", b"400 Odd"):
        served.answers[:] = [
            b"HTTP/1.1 %s\r\nWWW-Authenticate: Bearer\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}" % status
        ]
        answered = talk(running.uri, post(TABLE, GOOD))
        assert status_of(answered) == int(status[:3])
        assert b"Retry-After: 3" in answered
        assert b"WWW-Authenticate: Bearer" in answered
        assert answered.endswith(b"\r\n\r\n{}")
    assert served.requests(b"POST ") == []


def test_an_answer_that_is_framed_twice_comes_whole(running: RunningGateway, served: Recorder) -> None:
    served.answers[:] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    ]
    assert b"hello" in talk(running.uri, get("/v1/x"))


def test_rules_that_changed_by_another_request_are_asked_for_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    with recorder(answer(LOADED)) as behind, gateway(tmp_path_factory.mktemp("memory"), behind.uri) as running:
        bad = post(TABLE, commit({"project": "x"}))
        assert status_of(talk(running.uri, bad)) == 400
        talk(running.uri, post(f"{TABLE}/metrics", b"{}"))
        assert status_of(talk(running.uri, bad)) == 400
        assert len(behind.heard) == 2, "remembered"
        for change in (
            get(TABLE, method="DELETE"),
            post("/v1/p/tables/rename", b'{"source": {}, "destination": {}}'),
            post("/v1/p/namespaces/a%1Fb/tables", b'{"name": "t", "schema": {}}'),
        ):
            behind.answers[:] = [answer(LOADED)]
            talk(running.uri, change)
            behind.heard.clear()
            assert status_of(talk(running.uri, bad)) == 400
            assert len(behind.heard) == 1, "asked again"
