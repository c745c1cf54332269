"""What every request passes before any route: its id, the host it names, its size, and the headers of its answer."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.model.errors import TooLargeError, UsageError
from lakewarden.service.problems import answer, problem_of, unexpected
from lakewarden.service.service import is_loopback
from lakewarden.settings.sections import Service as ServiceSection

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Edge:
    """An ASGI layer around the whole application."""

    def __init__(self, app: ASGIApp, section: ServiceSection, new_id: Callable[[], str]) -> None:
        self._app = app
        self._most = section.max_request_bytes
        self._hosts = hosts_of(section)
        self._tls = section.tls
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope.setdefault("state", {})["request_id"] = self._new_id()

        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = request_id
                if self._tls:
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        request = Request(scope, receive)
        if (wrong := self._refused(request)) is not None:
            await answer(request, problem_of(request, wrong))(scope, receive, with_headers)
            return
        try:
            await self._app(scope, _counted(receive, self._most), with_headers)
        except Exception as error:
            if begun:
                raise  # the answer is half sent: the connection is closed, and whoever asked sees that
            await unexpected(request, error)(scope, receive, with_headers)

    def _refused(self, request: Request) -> TooLargeError | UsageError | None:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        if self._hosts is not None and name not in self._hosts:
            # A page of somebody else's may have given its own name the address of this machine.
            return UsageError(
                f"the service does not go by the name {name!r}; nothing was done",
                hint="Name it in service.allowed_hosts.",
            )
        length = request.headers.get("content-length", "0")
        return too_large(self._most) if length.isdigit() and int(length) > self._most else None


def too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the request is longer than {most:,} bytes; nothing was done")


def hosts_of(section: ServiceSection) -> frozenset[str] | None:
    """The names that the service goes by; None where it may be any."""
    if section.allowed_hosts:
        return frozenset(section.allowed_hosts)
    return frozenset({"localhost", "127.0.0.1", "::1", section.host}) if is_loopback(section.host) else None


def _counted(receive: Receive, most: int) -> Receive:
    """A body whose length nobody said is counted as it comes."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise too_large(most)
        return message

    return counted
