"""The gateway itself, as an ASGI application: commits are judged whole, and everything else is passed on as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakewarden.gateway import config_answer
from lakewarden.gateway.answers import REFUSED, Receive, Send, send_error, send_failure, send_whole
from lakewarden.gateway.bodies import HungUpError, Room, chunks_of, hung_up, whole_body
from lakewarden.gateway.commits import Change, changes_in
from lakewarden.gateway.headers import (
    Fields,
    is_framed_twice,
    one_value,
    other_letters,
    overrides_method,
    passed_on,
    sent_on,
    values,
)
from lakewarden.gateway.paths import (
    SEPARATOR,
    Kind,
    Place,
    climbs,
    is_odd,
    may_commit,
    moves_tables,
    names_in,
    place_of,
    table_path,
    without_branch,
)
from lakewarden.gateway.rules import LONG, Rules, ServedTable, Turned
from lakewarden.gateway.upstream import READING, Answer, Upstream
from lakewarden.logs import logger
from lakewarden.model.errors import GatewayRequestError, LineageError, UpstreamLostError
from lakewarden.model.errors.gateway import GatewayError
from lakewarden.model.redaction import redact
from lakewarden.model.table import identifier_of

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
        if climbs(request.path):
            raise GatewayRequestError("the path may lead out of the catalog; the request was not passed on")
        if is_framed_twice(request.fields):
            raise GatewayRequestError("the request has a length and chunks; it was not passed on")
        if request.method not in READING and request.method != "DELETE" and may_commit(request.path):
            await self._judged(request, receive, send)
        elif overrides_method(request.fields, request.method):
            raise GatewayRequestError("the request wants to be taken for another method; it was not passed on")
        elif request.method == "GET" and config_answer.is_config(request.path):
            await self._config(request, receive, send)
        else:
            body = chunks_of(receive) if request.has_body else None
            try:
                answer = await self._ask(request, body)
            finally:
                if moves_tables(request.method, request.path):
                    self.rules.forget()
            await self._relay(answer, receive, send)

    async def _judged(self, request: _Request, receive: Receive, send: Send) -> None:
        """A request that may be a commit: read to its end, judged, and only then passed on."""
        if is_odd(request.path):
            raise GatewayRequestError("the path can be read in several ways; the request was not passed on")
        if other_letters(request.fields):
            raise GatewayRequestError("the body is said to be in other letters than UTF-8; it was not passed on")
        with self._room.for_one() as room:
            body = await whole_body(receive, room, self.limits.commit_bytes)
            place = place_of(request.path)
            changes = await self._changes(request, place, body)
            if (answer := await self._verdict(request, place, changes)) is not None:
                await answer(send)
                return
            try:
                passed = await self._ask(request, body)
            finally:
                # Also where the answer is lost: what was asked for may be done.
                if moves_tables(request.method, request.path) or any(change.changes_rules for change in changes):
                    self.rules.forget()
        await self._relay(passed, receive, send)

    async def _changes(self, request: _Request, place: Place, body: bytes) -> list[Change]:
        if not body:
            return []
        encoding = one_value(request.fields, b"content-encoding")
        read = partial(
            changes_in, body, encoding, self.limits.commit_bytes, of_tables=place.kind in (Kind.TABLE, Kind.TABLES)
        )
        if len(body) <= LONG:
            return read()
        async with self._long:
            return await asyncio.to_thread(read)

    async def _verdict(self, request: _Request, place: Place, changes: list[Change]) -> Any:
        """The answer to a commit that is not passed on; None for one that is."""
        for change in changes:
            if not change.is_judged:
                continue
            table = self._table(request, place, change)
            lacks = await self.rules.violations(table, request.fields, change)
            if isinstance(lacks, Turned):
                return lambda send, told=lacks: send_whole(send, told.status, told.fields, told.body)
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
        inner = names_in(place.namespace, self.separator)
        names = (*inner, *change.names) if change.replaces and change.names else change.names or (*inner, place.table)
        if len(names) < 2 or not all(names):
            raise GatewayRequestError("the commit does not say which table it is of; it was not passed on")
        path = request.path if named else table_path(place.base, names[:-1], names[-1], self.separator)
        plain = without_branch(names[-1])
        # The catalog's separator may be a dot: it is known once the catalog was asked for its configuration.
        readings = (names, (*names[:-1], plain), (*".".join(names[:-1]).split("."), plain))
        known = dict.fromkeys(identifier_of(self.catalog, one) for one in readings)
        return ServedTable(identifier_of(self.catalog, names), path, tuple(known))

    async def _config(self, request: _Request, receive: Receive, send: Send) -> None:
        answer = await self._ask(request, None, packed=False)
        if answer.status != 200:
            await self._relay(answer, receive, send)
            return
        try:
            body = await answer.whole(config_answer.MOST_BYTES)
        finally:
            await answer.close()
        if body is None:
            raise UpstreamLostError("the catalog's configuration is larger than any is")
        found, self.separator = config_answer.through(body, self.upstream.address, self._public(request))
        # A catalog that packs what nobody asked it to pack: what was rewritten is unpacked.
        stale = [b"content-length", b"etag", *([] if found is body else [b"content-encoding"])]
        await send_whole(send, answer.status, passed_on(answer.fields, without=stale), found)

    async def _ask(
        self, request: _Request, body: AsyncIterator[bytes] | bytes | None, *, packed: bool = True
    ) -> Answer:
        fields = sent_on(request.fields, self.upstream.host, without=() if packed else [b"accept-encoding"])
        if not packed:
            fields.append((b"Accept-Encoding", b"identity"))
        return await self.upstream.ask(request.method, request.target, fields, body)

    async def _relay(self, answer: Answer, receive: Receive, send: Send) -> None:
        """The catalog's answer, chunk by chunk. Raises HungUpError: nobody waits for the rest."""
        gone = asyncio.ensure_future(hung_up(receive))
        try:
            stale = [b"content-length"] if is_framed_twice(answer.fields) else []
            fields = [(name, self._here(name, value)) for name, value in passed_on(answer.fields, without=stale)]
            await send({"type": "http.response.start", "status": answer.status, "headers": fields})
            async for chunk in answer.chunks():
                if gone.done():
                    raise HungUpError
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await answer.close()

    def _here(self, name: bytes, value: bytes) -> bytes:
        """A redirect to the catalog's own address would lead around the gateway: it leads to the same path here."""
        if name.lower() != b"location":
            return value
        own = [one for one in (self.upstream.address, self.upstream.base) if one]
        return config_answer.moved(value.decode("latin-1"), own, self.public_uri or "").encode("latin-1")

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
