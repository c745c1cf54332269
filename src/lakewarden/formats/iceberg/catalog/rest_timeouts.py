"""PyIceberg's REST catalog, asked by somebody who does not wait for ever: its own client has no timeout at all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

from lakewarden.model.errors import ConfigError

# As Iceberg's Java client calls them.
CONNECT_MS, ANSWER_MS = "rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"
LONGEST_MS = 60_000
MOST_MS = 2**31 - 1  # of a whole number in Java


class PatientRestCatalog(RestCatalog):
    """A REST catalog that gives up on a server that stays silent, a minute unless its properties say otherwise."""

    def _config_headers(self, session: Any) -> None:
        # The first thing that PyIceberg does with each session, before it asks for a token by it. An adapter would not
        # do: signed requests have one of their own.
        super()._config_headers(session)
        session.request = partial(session.request, timeout=_timeouts(self.name, self.properties))


def _timeouts(name: str, properties: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds to connect, and between two pieces of an answer. Raises ConfigError."""
    return _seconds(name, properties, CONNECT_MS), _seconds(name, properties, ANSWER_MS)


def _seconds(name: str, properties: Mapping[str, Any], key: str) -> float:
    text = str(properties.get(key, LONGEST_MS)).strip()
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MOST_MS):
        raise ConfigError(
            f"catalogs.{name}.properties: {key} = {text!r} is not a whole number of milliseconds above 0; "
            "the catalog was not opened"
        )
    return int(text) / 1000
