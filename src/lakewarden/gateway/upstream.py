"""The catalog behind the gateway: requests go to it as they came, and its answers come back as they are."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from lakewarden.gateway.headers import Fields
from lakewarden.model.errors import ConfigError, UpstreamDownError, UpstreamLostError

READING = frozenset({"GET", "HEAD", "OPTIONS"})
CONNECT_SECONDS = 5.0
MOST_CONNECTIONS = 256
# Servers close connections that idle; one that is closed at the moment it is used again would lose a commit's answer.
IDLE_SECONDS = 4.0


@dataclass(slots=True)
class Answer:
    """What the catalog answers: the body as it was sent, still packed, to be closed when it has been passed on."""

    status: int
    fields: Fields
    _response: httpx.Response

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body. Raises UpstreamLostError if it ends too soon."""
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except (httpx.TransportError, httpx.StreamError) as error:
            raise UpstreamLostError(f"the catalog's answer broke off ({type(error).__name__})") from error

    async def whole(self, most: int) -> bytes | None:
        """The whole body; None if it is larger than that."""
        found = bytearray()
        async for chunk in self.chunks():
            found += chunk
            if len(found) > most:
                return None
        return bytes(found)

    async def close(self) -> None:
        await self._response.aclose()


class Upstream:
    """Connections to one catalog."""

    def __init__(self, address: str, timeout: float, ca: str | None = None) -> None:
        """Raises ConfigError for a `ca` that is no file of certificates."""
        parts = urlsplit(address)
        # Without a password that somebody wrote into it: clients bring their own, and this is printed.
        place = parts.netloc.rpartition("@")[2]
        self.address = parts._replace(netloc=place).geturl()
        self.host = place.encode("ascii" if place.isascii() else "idna")
        self.base = parts.path.rstrip("/")
        self._origin = httpx.URL(f"{parts.scheme}://{place}")
        self._timeout = httpx.Timeout(timeout, connect=CONNECT_SECONDS).as_dict()
        try:
            context = ssl.create_default_context(cafile=ca) if parts.scheme == "https" else False
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"gateway.upstream_ca cannot be used: {error}; no gateway was started") from error
        limits = httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=IDLE_SECONDS)
        # Not a client, which would add fields, follow redirects and keep cookies.
        self._transport = httpx.AsyncHTTPTransport(verify=context, limits=limits, trust_env=False)

    async def ask(
        self, method: str, target: bytes, fields: Fields, body: AsyncIterator[bytes] | bytes | None = None
    ) -> Answer:
        """The answer to a request for `target`, a path with its query as the client sent them.

        Raises UpstreamDownError where nothing was passed on, UpstreamLostError where that is not known.
        """
        request = httpx.Request(
            method,
            self._origin,
            headers=list(fields),
            content=body,
            # Not the URL: the names of namespaces must stay as they were encoded.
            extensions={"target": self.base.encode() + target, "timeout": self._timeout},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            unknown = "CERTIFICATE_VERIFY_FAILED" in str(error)
            raise UpstreamDownError(
                f"the catalog behind the gateway cannot be {'believed' if unknown else 'reached'} "
                f"({type(error).__name__}); nothing was passed on",
                hint="Its certificate is not known here: name its authority in gateway.upstream_ca."
                if unknown
                else None,
            ) from error
        except httpx.TransportError as error:
            lost = f"the catalog behind the gateway did not answer ({type(error).__name__})"
            if method in READING:
                raise UpstreamLostError(lost, hint="The client may ask again: nothing was to be changed.") from error
            raise UpstreamLostError(f"{lost}; what was asked of it may be done") from error
        response.request = request
        return Answer(response.status_code, response.headers.raw, response)

    async def close(self) -> None:
        await self._transport.aclose()
