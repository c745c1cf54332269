"""`lakewarden serve`: the web process and the runner process, side by side."""

from __future__ import annotations

import uvicorn

from lakewarden.model.errors import Exit, UnsafeBindError
from lakewarden.service.app import create_app
from lakewarden.service.service import Service, is_loopback, open_service


def serve(config: str | None, *, host: str | None = None, port: int | None = None, quiet: bool = False) -> int:
    """Serve until a signal comes. Raises UnsafeBindError where others could reach what nobody has protected."""
    service = open_service(config, host=host, port=port)
    check_bind(service)
    section = service.section
    uvicorn.run(
        create_app(service),
        host=section.host,
        port=section.port,
        ssl_certfile=section.tls_certificate,
        ssl_keyfile=section.tls_key,
        log_level="warning",
        server_header=False,
    )
    return Exit.DONE


def check_bind(service: Service) -> None:
    """Raise UnsafeBindError unless the service is alone with this machine, or has tokens and a decision about TLS."""
    section = service.section
    if is_loopback(section.host):
        return
    if not service.ledger.tokens.any_counts():
        raise UnsafeBindError(f"{section.host} can be reached by others, and nobody has a token; nothing was started")
    if not section.tls and not section.plain_http:
        raise UnsafeBindError(
            f"{section.host} can be reached by others, and tokens would be sent in the clear; nothing was started"
        )
