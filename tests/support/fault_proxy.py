"""A proxy that loses, repeats, delays, cuts and forges answers, between a client and a real HTTP server on this machine.

It fronts an S3 server or an Iceberg REST catalog alike: requests go on byte for byte, with the client's own Host header,
so that a signature stays true. A test says which requests meet which fault, and how often:

    with fault_proxy(server.endpoint) as proxy:
        proxy.on(method("POST", query="delete"), lost)
        ...
        assert proxy.requests("POST", query="delete") == 1
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "proxy-connection", "te", "upgrade"}
_TIMEOUT = 60


@dataclass(frozen=True)
class Request:
    """One request as the client sent it. `target` is the raw path with its query."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass(frozen=True)
class Answer:
    """What goes back. With `cut`, the headers promise the whole body and the connection ends after so many bytes."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    cut: int | None = None


class Dropped:
    """No answer: the connection ends, or is reset."""

    def __init__(self, *, reset: bool) -> None:
        self.reset = reset


Send = Callable[[Request], Answer]
Fault = Callable[[Request, Send], "Answer | Dropped"]
Match = Callable[[Request], bool]


def honest(request: Request, send: Send) -> Answer:
    return send(request)


def lost(request: Request, send: Send) -> Dropped:
    """The server does it, and the answer never arrives."""
    send(request)
    return Dropped(reset=False)


def reset_before(_request: Request, _send: Send) -> Dropped:
    """The connection is reset before the server hears of the request."""
    return Dropped(reset=True)


def reset_after(request: Request, send: Send) -> Dropped:
    """The server does it, and the connection is reset in place of the answer."""
    send(request)
    return Dropped(reset=True)


def repeated(request: Request, send: Send) -> Answer:
    """Something on the way sends the request twice; the client gets the second answer."""
    send(request)
    return send(request)


def busy_before(_request: Request, _send: Send) -> Answer:
    """503, and the server never heard of the request."""
    return _busy()


def busy_after(request: Request, send: Send) -> Answer:
    """503, although the server has done it."""
    send(request)
    return _busy()


def truncated(request: Request, send: Send) -> Answer:
    """The server does it; the answer's body ends in the middle."""
    answer = send(request)
    return replace(answer, cut=len(answer.body) // 2)


def empty_before(_request: Request, _send: Send) -> Answer:
    """200 with no body, and the server never heard of the request."""
    return Answer(200)


def empty_after(request: Request, send: Send) -> Answer:
    """The server does it; the answer is 200 with no body."""
    send(request)
    return Answer(200)


def foreign_before(_request: Request, _send: Send) -> Answer:
    """200 with the page of something else, such as a login page, and the server never heard of the request."""
    return Answer(200, (("Content-Type", "text/html"),), b"<html><body>Please log in</body></html>")


def denied(_request: Request, _send: Send) -> Answer:
    """403, and the server never heard of the request."""
    body = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    return Answer(403, (("Content-Type", "application/xml"),), body)


def late(seconds: float) -> Fault:
    """The request waits on the way; the server does it that much later, whether or not the client still listens."""

    def fault(request: Request, send: Send) -> Answer:
        time.sleep(seconds)
        return send(request)

    return fault


def slow_answer(seconds: float) -> Fault:
    """The server does it at once; the answer takes its time."""

    def fault(request: Request, send: Send) -> Answer:
        answer = send(request)
        time.sleep(seconds)
        return answer

    return fault


def edited(change: Callable[[Answer], Answer]) -> Fault:
    """The server does it; a test writes the answer anew."""

    def fault(request: Request, send: Send) -> Answer:
        return change(send(request))

    return fault


def stale() -> Fault:
    """The first answer to a request, given again for every later one of the same method and address."""
    kept: dict[tuple[str, str], Answer] = {}

    def fault(request: Request, send: Send) -> Answer:
        answer = send(request)
        return kept.setdefault((request.method, request.target), answer)

    return fault


# Every fault that needs no word of its own, by name, for suites that run a call through all of them.
FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        lost, reset_before, reset_after, repeated, busy_before, busy_after, truncated, empty_before, empty_after,
        foreign_before, denied,
    )
}  # fmt: skip


def method(*names: str, path: str = "", query: str | None = None) -> Match:
    """Requests of these methods whose path holds a text, and whose query has a key."""

    def match(request: Request) -> bool:
        return (
            (not names or request.method in names)
            and path in request.path
            and (query is None or query in request.query)
        )

    return match


@dataclass
class Rule:
    """Requests that match meet the fault, so many times (None: always), after so many went through unharmed."""

    match: Match
    fault: Fault
    times: int | None = 1
    after: int = 0
    hits: int = 0


@dataclass
class Exchange:
    """One request and the status that the client was given; None if it got no answer."""

    request: Request
    status: int | None
    at: float


@dataclass
class FaultProxy:
    """A running proxy. Rules are asked in order; a request that no rule matches goes through unharmed."""

    upstream: str
    endpoint: str = ""
    rules: list[Rule] = field(default_factory=list)
    log: list[Exchange] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def on(self, match: Match, fault: Fault, *, times: int | None = 1, after: int = 0) -> Rule:
        """From now on matching requests meet this fault. The rule counts how many did."""
        rule = Rule(match, fault, times, after)
        with self.lock:
            self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Forget all rules and all that was seen."""
        with self.lock:
            self.rules.clear()
            self.log.clear()

    def seen(self, match: Match) -> list[Request]:
        """The requests so far that match."""
        with self.lock:
            return [exchange.request for exchange in self.log if match(exchange.request)]

    def requests(self, *names: str, path: str = "", query: str | None = None) -> int:
        """How many requests came of these methods, with this in their path and that key in their query."""
        return len(self.seen(method(*names, path=path, query=query)))

    def answer(self, request: Request) -> Answer | Dropped:
        fault = self._fault(request)
        at = time.monotonic()
        try:
            found = fault(request, self.send)
        except (OSError, http.client.HTTPException):
            found = Dropped(reset=True)  # the server itself hung up
        with self.lock:
            self.log.append(Exchange(request, found.status if isinstance(found, Answer) else None, at))
        return found

    def send(self, request: Request) -> Answer:
        """What the real server says."""
        host = urlsplit(self.upstream)
        assert host.hostname is not None
        connection = http.client.HTTPConnection(host.hostname, host.port or 80, timeout=_TIMEOUT)
        try:
            connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                if name.lower() not in _HOP_BY_HOP and name.lower() not in ("content-length", "expect"):
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(request.body)))
            connection.endheaders(request.body)
            answer = connection.getresponse()
            body = answer.read()
            headers = [pair for pair in answer.getheaders() if pair[0].lower() not in _HOP_BY_HOP]
            return Answer(answer.status, tuple(headers), body)
        finally:
            connection.close()

    def _fault(self, request: Request) -> Fault:
        with self.lock:
            for rule in self.rules:
                if (rule.times is not None and rule.hits >= rule.times) or not rule.match(request):
                    continue
                if rule.after > 0:
                    rule.after -= 1
                    continue
                rule.hits += 1
                return rule.fault
        return honest


@contextlib.contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """A proxy on a free port of the loopback address, in front of `upstream` (`http://127.0.0.1:port`)."""
    proxy = FaultProxy(upstream)

    class Handler(_Handler):
        behind = proxy

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    behind: FaultProxy
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:
        return

    def _serve(self) -> None:
        body = self._body()
        found = self.behind.answer(Request(self.command, self.path, tuple(self.headers.items()), body))
        self.close_connection = True
        if isinstance(found, Dropped):
            if found.reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        with contextlib.suppress(OSError):  # the client no longer listens
            self._reply(found)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _serve  # noqa: N815 - names of http.server

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(pieces)

    def _reply(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(answer.body)))
        if answer.cut is None:
            self.close_connection = False
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body if answer.cut is None else answer.body[: answer.cut])


def _busy() -> Answer:
    body = (
        b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    )
    return Answer(503, (("Content-Type", "application/xml"),), body)
