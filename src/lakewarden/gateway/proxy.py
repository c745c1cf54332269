"""The gateway itself, as an ASGI application: commits are judged whole, and everything else is passed on as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from lakewarden.gateway import config_answer
from lakewarden.gateway.answers import REFUSED, Receive, Send, send_error, send_failure, send_whole
from lakewarden.gateway.bodies import HungUpError, Room, chunks_of, whole_body
from lakewarden.gateway.commits import Change, changes_in
from lakewarden.gateway.headers import Fields, one_value, overrides_method, passed_on, sent_on, values
from lakewarden.gateway.paths import SEPARATOR, Kind, Place, is_odd, may_commit, names_in, place_of, table_path
from lakewarden.gateway.rules import LONG, Rules, ServedTable, Turned
from lakewarden.gateway.upstream import Answer, Upstream
from lakewarden.logs import logger
from lakewarden.model.errors import GatewayRequestError, LineageError, UpstreamLostError
from lakewarden.model.errors.gateway import GatewayError
from lakewarden.model.redaction import redact
from lakewarden.model.table import identifier_of

READING = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the gateway takes: one commit, and all commits that are judged at once."""

    commit_bytes: int
    buffered_bytes: int


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, as it was sent."""

    method: str
    path: str
    target: bytes
    fields: Fields
    scope: dict[str, Any]

    @staticmethod
    def of(scope: dict[str, Any]) -> _Request:
        path = bytes(scope["raw_path"])
        query = bytes(scope["query_string"])
        target = path + b"?" + query if query else path
        return _Request(scope["method"], path.decode("latin-1"), target, scope["headers"], scope)

    @property
    def has_body(self) -> bool:
        return bool(values(self.fields, b"content-length") or values(self.fields, b"transfer-encoding"))


@dataclass(slots=True)
class Gateway:
    """In front of one catalog, which goes by the name `catalog` in overrides and messages."""

    catalog: str
    upstream: Upstream
    rules: Rules
    limits: Limits
    public_uri: str | None = None
    separator: str = SEPARATOR
    _room: Room = field(init=False)
    _long: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._room = Room(self.limits.buffered_bytes)
        # A long body takes many times its size while it is read: one at a time.
        self._long = asyncio.Semaphore(1)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request, begun = _Request.of(scope), _Begun(send)
        try:
            await self._answer(request, receive, begun)
        except HungUpError:
            _log.info("client hung up", method=request.method, path=redact(request.path))
        except GatewayError as error:
            _log.warning("not passed on", path=redact(request.path), code=error.code, message=error.message)
            if begun.is_begun:
                raise  # the answer is half sent: the connection is closed, so that nobody takes it for whole
            await send_failure(send, error)
        except Exception as error:
            words = redact(f"{type(error).__name__}: {error}")
            _log.error("failed", method=request.method, path=redact(request.path), error=words)
            if begun.is_begun:
                raise
            await send_error(send, 500, "GatewayError", f"LW-CORE-001 the gateway failed ({words})")

    async def _answer(self, request: _Request, receive: Receive, send: Send) -> None:
        if not request.path.startswith("/"):
            raise GatewayRequestError("the request names no path; it was not passed on")
        if request.method not in READING and may_commit(request.path):
            await self._judged(request, receive, send)
        elif overrides_method(request.fields, request.method):
            raise GatewayRequestError("the request wants to be taken for another method; it was not passed on")
        elif request.method == "GET" and config_answer.is_config(request.path):
            await self._config(request, send)
        else:
            body = chunks_of(receive) if request.has_body else None
            await self._relay(await self._ask(request, body), send)

    async def _judged(self, request: _Request, receive: Receive, send: Send) -> None:
        """A request that may be a commit: read to its end, judged, and only then passed on."""
        if is_odd(request.path):
            raise GatewayRequestError("the path can be read in several ways; the request was not passed on")
        with self._room.for_one() as room:
            body = await whole_body(receive, room, self.limits.commit_bytes)
            changes = await self._changes(request, body)
            place = place_of(request.path)
            if (answer := await self._verdict(request, place, changes)) is not None:
                await answer(send)
                return
            passed = await self._ask(request, body)
        for change in changes:
            if change.changes_rules and place.kind is not Kind.OTHER:
                self.rules.forget(self._table(request, place, change))
        await self._relay(passed, send)

    async def _changes(self, request: _Request, body: bytes) -> list[Change]:
        if not body:
            return []
        encoding = one_value(request.fields, b"content-encoding")
        if len(body) <= LONG:
            return changes_in(body, encoding, self.limits.commit_bytes)
        async with self._long:
            return await asyncio.to_thread(changes_in, body, encoding, self.limits.commit_bytes)

    async def _verdict(self, request: _Request, place: Place, changes: list[Change]) -> Any:
        """The answer to a commit that is not passed on; None for one that is."""
        for change in changes:
            if not change.summaries:
                continue
            table = self._table(request, place, change)
            lacks = await self.rules.violations(table, request.fields, change)
            if isinstance(lacks, Turned):
                fields = [(b"content-type", b"application/json")]
                return lambda send, told=lacks: send_whole(send, told.status, fields, told.body)
            if lacks:
                words = "; ".join(lacks)
                _log.warning("commit refused", table=table.identifier, lacks=words, client=_client(request))
                message = (
                    f"{LineageError.code} the commit to {table.identifier} is not as the table requires: {words}; "
                    "nothing was committed"
                )
                return lambda send, told=message: send_error(send, REFUSED, LineageError.__name__, told)
        return None

    def _table(self, request: _Request, place: Place, change: Change) -> ServedTable:
        """Which table a change is of, and where the catalog serves it. Raises GatewayRequestError if that is not told."""
        if place.kind is Kind.OTHER:
            raise GatewayRequestError("the request has updates and its path names no table; it was not passed on")
        named = place.kind is Kind.TABLE
        if named and change.names is not None and not place.may_be(change.names, self.separator):
            raise GatewayRequestError("the path and the body name different tables; the commit was not passed on")
        names = change.names or (*names_in(place.namespace, self.separator), place.table)
        if len(names) < 2 or not all(names):
            raise GatewayRequestError("the commit does not say which table it is of; it was not passed on")
        path = request.path if named else table_path(place.base, names[:-1], names[-1], self.separator)
        return ServedTable(identifier_of(self.catalog, names), path, place.base)

    async def _config(self, request: _Request, send: Send) -> None:
        answer = await self._ask(request, None, without=[b"accept-encoding"])
        if answer.status != 200:
            await self._relay(answer, send)
            return
        try:
            body = await answer.whole(config_answer.MOST_BYTES)
        finally:
            await answer.close()
        if body is None:
            raise UpstreamLostError("the catalog's configuration is larger than any is")
        body, self.separator = config_answer.through(body, self.upstream.address, self._public(request))
        await send_whole(send, answer.status, passed_on(answer.fields, without=[b"content-length", b"etag"]), body)

    async def _ask(
        self, request: _Request, body: AsyncIterator[bytes] | bytes | None, *, without: list[bytes] | None = None
    ) -> Answer:
        fields = sent_on(request.fields, self.upstream.host, without=without or ())
        return await self.upstream.ask(request.method, request.target, fields, body)

    async def _relay(self, answer: Answer, send: Send) -> None:
        """The catalog's answer, chunk by chunk."""
        try:
            fields = [(name, self._here(name, value)) for name, value in passed_on(answer.fields)]
            await send({"type": "http.response.start", "status": answer.status, "headers": fields})
            async for chunk in answer.chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await answer.close()

    def _here(self, name: bytes, value: bytes) -> bytes:
        """A redirect to the catalog's own address leads around the gateway; a path of its own is already ours."""
        if name.lower() != b"location" or self.public_uri is None:
            return value
        return config_answer.moved(value.decode("latin-1"), [self.upstream.address], self.public_uri).encode("latin-1")

    def _public(self, request: _Request) -> str:
        """The address under which this client reaches the gateway."""
        if self.public_uri is not None:
            return self.public_uri
        host = one_value(request.fields, b"host")
        if not host:
            raise GatewayRequestError("the request names no host; it was not passed on")
        return f"{request.scope['scheme']}://{host}"


@dataclass(slots=True)
class _Begun:
    """Sends, and knows whether an answer has begun."""

    send: Send
    is_begun: bool = False

    async def __call__(self, message: Any) -> None:
        self.is_begun = True
        await self.send(message)


def _client(request: _Request) -> str:
    found = request.scope.get("client")
    return str(found[0]) if found else "unknown"
