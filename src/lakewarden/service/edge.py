"""What every request passes before any route: its id, the host it names, its size, and the headers of its answer."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.model.errors import ForbiddenError, LakewardenError, TooLargeError, UsageError
from lakewarden.service.problems import answer, problem_of, unexpected
from lakewarden.service.service import is_loopback
from lakewarden.settings.sections import Service as ServiceSection

NUL = "\0"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
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

        if scope["method"] == "HEAD":
            # What can be read can be asked for without its content: routes know only GET.
            scope, send = {**scope, "method": "GET"}, _without_content(send)
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

    def _refused(self, request: Request) -> LakewardenError | None:
        name = named_host(request.headers.get("host", ""))
        if name is None or (self._hosts is not None and name not in self._hosts):
            # A page of somebody else's may have given its own name the address of this machine.
            return UsageError(
                f"the service does not go by the name {name or ''!r}; nothing was done",
                hint="Name it in service.allowed_hosts.",
            )
        if request.method not in READS and not self._from_here(request.headers, name):
            # No form of ours is sent by another site's page: not even the one that logs somebody in, as somebody else.
            return ForbiddenError(
                "this was sent by a page of another site; nothing was done", hint=f"Open {name} itself."
            )
        if NUL in request.scope["path"] or b"%00" in request.scope["query_string"]:
            # No name holds it, and a database that is asked for it would be called broken.
            return UsageError("an address with a NUL in it is nobody's; nothing was done")
        length = request.headers.get("content-length", "0")
        return too_large(self._most) if length.isdigit() and int(length) > self._most else None

    def _from_here(self, headers: Headers, name: str) -> bool:
        """Whether a change comes from a page of ours, or from a program, which names no page."""
        if (site := headers.get("sec-fetch-site")) is not None:
            return site in ("same-origin", "none")
        # Browsers say less to a plain address. Our own pages name no referrer, so that the origin of their forms is null.
        origin = headers.get("origin", "null")
        return origin == "null" or named_host(origin.partition("://")[2]) in {name, *(self._hosts or ())}


def _without_content(send: Send) -> Send:
    """An answer that ends with its head: one that would go on for hours ends there too."""

    async def head_only(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return head_only


def named_host(header: str) -> str | None:
    """The name in a Host header, without a port; None for what is no name."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return None


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
