"""The web process: `python -m lakewarden.service.web`. It serves on a socket that its parent has opened."""

from __future__ import annotations

import argparse
import os
import signal
import socket

import uvicorn

from lakewarden import logs
from lakewarden.service.app import create_app
from lakewarden.service.process import live, when_parent_is_gone
from lakewarden.service.service import open_service
from lakewarden.service.slow_clients import PatientForAWhile

# Whoever watches a run live keeps a connection open: after so many seconds it is closed.
GRACE_SECONDS = 5


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="lakewarden-web")
    parser.add_argument("--config")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--host")
    parser.add_argument("--lifeline", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    said = parser.parse_args(arguments)
    logs.configure(verbose=said.verbose)
    service = open_service(said.config, host=said.host)
    if said.lifeline:
        when_parent_is_gone(lambda: os.kill(os.getpid(), signal.SIGTERM))
    section = service.section
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(service),
            http=PatientForAWhile,
            ssl_certfile=section.tls_certificate,
            ssl_keyfile=section.tls_key,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    server.run(sockets=[socket.socket(fileno=said.fd)])
    service.warden.close()
    return 0


if __name__ == "__main__":
    live(main)
