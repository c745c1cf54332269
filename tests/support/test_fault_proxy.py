"""The proxy itself: requests go through unharmed with their signatures, and each fault does what its name says."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest

from tests.support.fault_proxy import FAULTS, FaultProxy, fault_proxy, late, lost, method, stale
from tests.support.seaweed import s3_client
from tests.support.storage import SHARED, Seaweed


class Counter(BaseHTTPRequestHandler):
    """Answers with how many requests it has had."""

    had = 0
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        type(self).had += 1
        body = f"had {type(self).had} of them".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    Counter.had = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counter)
    Thread(target=server.serve_forever, daemon=True).start()
    with fault_proxy(f"http://127.0.0.1:{server.server_address[1]}") as found:
        yield found
    server.shutdown()
    server.server_close()


def ask(proxy: FaultProxy, path: str = "/") -> tuple[int, str]:
    host = urlsplit(proxy.endpoint)
    connection = http.client.HTTPConnection(str(host.hostname), host.port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("fault", "applied"),
    [("lost", 1), ("reset_before", 0), ("reset_after", 1), ("truncated", 1)],
)
def test_faults_without_a_whole_answer(proxy: FaultProxy, fault: str, applied: int) -> None:
    proxy.on(method("GET"), FAULTS[fault])
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(proxy)
    assert Counter.had == applied
    assert ask(proxy) == (200, f"had {applied + 1} of them")


@pytest.mark.parametrize(
    ("fault", "applied", "answer"),
    [
        ("repeated", 2, (200, "had 2 of them")),
        ("busy_before", 0, (503, None)),
        ("busy_after", 1, (503, None)),
        ("empty_before", 0, (200, "")),
        ("empty_after", 1, (200, "")),
        ("foreign_before", 0, (200, None)),
        ("denied", 0, (403, None)),
    ],
)
def test_faults_with_an_answer(proxy: FaultProxy, fault: str, applied: int, answer: tuple[int, str | None]) -> None:
    proxy.on(method("GET"), FAULTS[fault])
    status, body = ask(proxy)
    assert (status, answer[1] is None or body == answer[1]) == (answer[0], True)
    assert Counter.had == applied


def test_rules_choose_by_path_and_count(proxy: FaultProxy) -> None:
    rule = proxy.on(method("GET", path="/a", query="x"), lost, times=1, after=1)
    assert ask(proxy, "/b?x")[0] == ask(proxy, "/a")[0] == ask(proxy, "/a?x=1")[0] == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(proxy, "/a?x=1")
    assert (rule.hits, proxy.requests("GET", path="/a"), ask(proxy, "/a?x=1")[0]) == (1, 3, 200)


def test_an_old_answer_comes_again_and_a_late_request_arrives(proxy: FaultProxy) -> None:
    proxy.on(method("GET", path="/old"), stale(), times=None)
    assert ask(proxy, "/old") == ask(proxy, "/old") == (200, "had 1 of them")
    proxy.on(method("GET", path="/late"), late(0.05))
    assert ask(proxy, "/late") == (200, "had 3 of them")


def test_a_signed_request_goes_through(seaweed: Seaweed) -> None:
    with fault_proxy(seaweed.endpoint) as proxy:
        client = s3_client(proxy.endpoint, seaweed.access_key, seaweed.secret_key)
        name = "proxied/a b%20ü+#1"
        client.put_object(Bucket=SHARED, Key=name, Body=b"x" * 100_000)
        assert client.get_object(Bucket=SHARED, Key=name)["Body"].read() == b"x" * 100_000
        assert client.head_object(Bucket=SHARED, Key=name)["ContentLength"] == 100_000
        answer = client.delete_objects(Bucket=SHARED, Delete={"Objects": [{"Key": name}]})
        assert [item["Key"] for item in answer["Deleted"]] == [name]
        assert proxy.requests("POST", query="delete") == 1
