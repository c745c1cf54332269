"""Requests to a gateway as bytes, and what it answers to them."""

from __future__ import annotations

import json
from typing import Any

TABLE = "/v1/p/namespaces/a%1Fb/tables/t"
LOADED = b'{"metadata": {"properties": {"lineage.required-keys": "team"}}}'


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body


def post(path: str, body: bytes, *fields: str, length: int | None = None, version: str = "1.1") -> bytes:
    lines = [
        f"POST {path} HTTP/{version}",
        "Host: gate.example",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    return "\r\n".join([*lines, "Connection: close", *fields, "", ""]).encode() + body


def commit(*summaries: dict[str, Any], **more: Any) -> bytes:
    """Appends that say this."""
    said = [{"operation": "append", **one} for one in summaries]
    updates = [{"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "summary": one}} for one in said]
    return json.dumps({"requirements": [], "updates": updates, **more}).encode()


def status_of(answered: bytes) -> int:
    return int(answered.split(b" ", 2)[1])


def error_of(answered: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answered.partition(b"\r\n\r\n")[2])["error"]
    assert found["code"] == status_of(answered)
    return found
