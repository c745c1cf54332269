"""Whoever sends a request a letter at a time holds a connection for a while, and nobody up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from lakewarden.service import slow_clients
from lakewarden.service.slow_clients import PatientForAWhile

LOOK = 0.2
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(slow_clients, "LOOK_EVERY_SECONDS", LOOK)
    app = FastAPI()

    @app.get("/")
    def answer() -> StreamingResponse:
        def slowly() -> Iterator[bytes]:
            for _ in range(8):
                time.sleep(LOOK)
                yield b"x"

        return StreamingResponse(slowly())

    @app.post("/")
    async def take(request: Request) -> int:
        return len(await request.body())

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=PatientForAWhile, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b"Content-Length: 10\r\n\r\nhalf"])
def test_what_never_comes_whole_is_closed(port: int, begun: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        slow.sendall(begun)
        assert slow.recv(1000) == b"", "the other side has closed it"


def test_an_answer_takes_as_long_as_it_likes(port: int) -> None:
    with httpx.Client(timeout=60) as client:
        assert [client.get(f"http://127.0.0.1:{port}/").text for _ in range(2)] == ["xxxxxxxx"] * 2
