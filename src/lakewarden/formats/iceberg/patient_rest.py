"""PyIceberg's REST catalog, asked by somebody who does not wait for ever: its own client has no timeout at all."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

# As Iceberg's Java client calls them.
CONNECT_MS, ANSWER_MS = "rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"
LONGEST_MS = 60_000


class PatientRestCatalog(RestCatalog):
    """A REST catalog that gives up on a server that stays silent, a minute unless its properties say otherwise."""

    def _config_headers(self, session: Any) -> None:
        # The first thing that PyIceberg does with each session, before it asks for a token by it. An adapter would not
        # do: signed requests have one of their own.
        super()._config_headers(session)
        session.request = partial(session.request, timeout=_timeouts(self.properties))


def _timeouts(properties: Any) -> tuple[float, float]:
    """Seconds to connect, and between two pieces of an answer."""
    return int(properties.get(CONNECT_MS, LONGEST_MS)) / 1000, int(properties.get(ANSWER_MS, LONGEST_MS)) / 1000
