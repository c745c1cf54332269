"""Answers of the gateway's own, in the words and the format of a REST catalog, so that clients show them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from lakewarden.gateway.headers import Fields
from lakewarden.model.errors.gateway import GatewayError

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

# "Other forms of request validation failure", as the specification has it. Clients neither try again nor take the commit
# for one that may have been made, and Spark removes the files that it wrote for it.
REFUSED = 400


async def send_error(send: Send, status: int, kind: str, message: str) -> None:
    """One ErrorModel."""
    document = {"error": {"message": message, "type": kind, "code": status}}
    await send_whole(send, status, [(b"content-type", b"application/json")], json.dumps(document).encode())


async def send_failure(send: Send, error: GatewayError) -> None:
    await send_error(send, error.status, type(error).__name__, f"{error.code} {error.message}. {error.hint}")


async def send_whole(send: Send, status: int, fields: Fields, body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*fields, length]})
    await send({"type": "http.response.body", "body": body})
