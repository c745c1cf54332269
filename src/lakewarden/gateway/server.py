"""Serving the gateway: the listening socket, its TLS, and an end that finishes what was begun."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from lakewarden.gateway.proxy import Gateway, Limits
from lakewarden.gateway.rules import Rules
from lakewarden.gateway.upstream import Upstream
from lakewarden.model.errors import ConfigError, GatewayStartError
from lakewarden.settings import Settings

# How long requests that were begun may take once the gateway is told to stop.
DRAIN_SECONDS = 30
# Longer than clients keep a connection: one that is closed at the moment it is used again would lose a commit's answer.
KEEP_ALIVE_SECONDS = 300
BACKLOG = 1024


class _Server(uvicorn.Server):
    """Stops when told to by a signal, and does not raise it again: a server that was told to stop has done its work.

    `cut` requests took longer than the time that they had.
    """

    cut = 0
    started_up: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Not before: whoever hears of the address may send a signal at once, which is heard by now.
        self.started_up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self.cut = len(self.server_state.tasks)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def serve(
    settings: Settings, host: str | None = None, port: int | None = None, told: Callable[[str, str], None] | None = None
) -> int:
    """Serve until a signal comes, and say how many requests were cut off by that. `told` hears the gateway's address and
    the catalog's, once the socket listens.

    Raises ConfigError and GatewayStartError.
    """
    said = settings.gateway
    name, address = said.upstream_of({name: one.properties for name, one in settings.catalogs.items()})
    upstream = Upstream(address, said.upstream_timeout_seconds, said.upstream_ca)
    app = Gateway(
        name,
        upstream,
        Rules(upstream, settings.requirements_for, said.rules_seconds, time.monotonic),
        Limits(said.max_commit_bytes, said.max_buffered_bytes),
        said.public_uri,
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ssl_certfile=said.tls_certificate,
        ssl_keyfile=said.tls_key,
        # Named, so that what else is installed does not change how requests are read.
        http="h11",
        loop="asyncio",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate of [gateway] cannot be used: {error}; no gateway was started") from error
    listening = _listen(host or said.host, said.port if port is None else port)
    scheme = "https" if said.tls_certificate else "http"

    async def run() -> int:
        server = _Server(config)
        if told is not None:
            server.started_up = lambda: told(f"{scheme}://{_shown(listening)}", upstream.address)
        try:
            await server.serve(sockets=[listening])
        finally:
            await upstream.close()
        return server.cut

    try:
        return asyncio.run(run())
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio sends small answers at once: it looks at the number that the socket was made with.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise GatewayStartError(f"the gateway cannot listen at {host}:{port}: {error.strerror or error}") from error
    return found


def _shown(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
