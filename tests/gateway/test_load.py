"""Fifty clients at once, a commit of 64 MiB, and a client that hangs up in the middle of one."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.gateway.load import IN_MEMORY, Client, append, at_once, commits
from tests.support.gateways import RunningGateway, gateway
from tests.support.rest import Serve

LARGE = 64 << 20
SAID = {"writer.id": "load", "trigger.type": "schedule"}


@pytest.fixture
def running(serve: Serve, tmp_path: Path) -> Iterator[RunningGateway]:
    upstream = serve({**IN_MEMORY, "warehouse": f"file://{tmp_path}/warehouse"})
    with gateway(tmp_path / "gateway", upstream.uri) as found:
        client = Client(found.uri)
        assert client.ask("POST", "/v1/namespaces", {"namespace": ["load"]})[0] == 200
        client.close()
        yield found


def test_fifty_clients_at_once_get_no_error(running: RunningGateway) -> None:
    took, failed = at_once(50, lambda number: commits(running.uri, f"t{number}", 3))
    assert failed == []
    assert len(took) == 150


def test_a_commit_of_64_mib_passes_and_half_of_one_does_nothing(running: RunningGateway) -> None:
    assert len(commits(running.uri, "large", 1)) == 1
    client = Client(running.uri)
    path = "/v1/namespaces/load/tables/large"
    status, said = client.ask("POST", path, _large(append(2, "file:///x", 2, 1)))
    assert (status, b"writer.id is missing" in said) == (400, True)

    whole = f"POST {path} HTTP/1.1\r\nHost: g\r\nContent-Length: {LARGE}\r\n\r\n".encode()
    place = urlsplit(running.uri)
    for _ in range(3):
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=10) as half:
            half.sendall(whole + b'{"updates": [' + b" " * (8 << 20))

    status, said = client.ask("POST", path, _large(append(2, "file:///x", 2, 1, **SAID)))
    assert status == 200, said[:300]
    assert client.ask("GET", "/v1/namespaces")[0] == 200
    client.close()
    assert psutil.Process(running.process.pid).memory_info().rss < 1 << 30
    assert running.stop() == 0


def _large(document: dict[str, Any]) -> bytes:
    """A commit of 64 MiB, most of it space: what the catalog's own memory takes."""
    return b" " * LARGE + json.dumps(document).encode()
