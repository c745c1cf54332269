"""Whether anybody listens where a standalone master should be: Spark itself asks for a minute and a half, in silence."""

from __future__ import annotations

import socket

from lakewarden.model.errors import SilentMasterError

STANDALONE = "spark://"
PORT = 7077
CONNECT_SECONDS = 5.0


def refuse_silent(master: str) -> None:
    """Raise SilentMasterError where none of the masters of `spark://one:7077,two:7077` takes a connection."""
    if not master.startswith(STANDALONE):
        return
    heard = []
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host or port, int(port) if host else PORT), CONNECT_SECONDS):
                return
        except (OSError, ValueError) as error:
            heard.append(f"{address}: {error}")
    raise SilentMasterError(f"no Spark master answers at {master} ({'; '.join(heard)}); nothing was done")
