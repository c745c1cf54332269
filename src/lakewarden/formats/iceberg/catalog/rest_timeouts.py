"""PyIceberg's REST catalog, asked by somebody who does not wait for ever and never says a thing twice by accident.

PyIceberg's own client has no timeout at all, follows pages without end, and may send a commit again on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import requests
from pyiceberg.catalog.rest import PAGE_SIZE, Capability, Endpoints, RestCatalog
from pyiceberg.catalog.rest.auth import OAuth2AuthManager, OAuth2TokenProvider
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import NoSuchNamespaceError
from urllib3.util import Retry

from lakewarden.formats.iceberg.catalog.rest_pages import entries_of
from lakewarden.model.errors import ConfigError, UnbelievableListingError

# As Iceberg's Java client calls them.
CONNECT_MS, ANSWER_MS = "rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"
LONGEST_MS = 60_000
MOST_MS = 2**31 - 1  # of a whole number in Java

EXPIRED = (401, 419)
LONGEST_ANSWER = 300.0  # seconds from the question to the last byte of its answer
MOST_BYTES, PIECE = 1 << 30, 1 << 16

Name = tuple[str, ...]


class PatientRestCatalog(RestCatalog):
    """A REST catalog that gives up on a server that stays silent, a minute unless its properties say otherwise."""

    def _config_headers(self, session: Any) -> None:
        # The first thing that PyIceberg does with each session, before it asks for a token by it. An adapter would not
        # do: signed requests have one of their own.
        super()._config_headers(session)
        session.request = partial(_whole, session.request, timeout=_timeouts(self.name, self.properties))

    def _create_session(self) -> Any:
        session = super()._create_session()
        adapters: Any = session.adapters.values()
        for adapter in adapters:
            # Nothing below us sends a request again: we could not tell its first answer from its second.
            adapter.max_retries = Retry(0, read=False)
        if isinstance(self._auth_manager, OAuth2AuthManager):
            timeouts = _timeouts(self.name, self.properties)
            self._auth_manager.token_provider = PatientTokens(self._auth_manager.token_provider, timeouts)
        return session

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        """Send a commit once. PyIceberg would send it again after a 401, which may have been somebody else's answer."""
        once: Any = RestCatalog.commit_table
        return once.__wrapped__(self, table, requirements, updates)

    def list_tables(self, namespace: str | Name) -> list[Name]:
        """Raises UnbelievableListingError, and what PyIceberg raises."""
        self._check_endpoint(Capability.V1_LIST_TABLES)
        place = self._check_valid_namespace_identifier(namespace)
        url = self.url(Endpoints.list_tables, namespace=self._encode_namespace_path(place))
        found = [
            (*map(str, entry["namespace"]), str(entry["name"]))
            for entry in self._entries(f"the tables of {'.'.join(place)}", url, "identifiers")
        ]
        for name in found:
            # An answer to another question, from a cache in between say. Some servers fold the case of names.
            if [part.casefold() for part in name[:-1]] != [part.casefold() for part in place]:
                raise UnbelievableListingError(
                    f"catalog {self.name} names {'.'.join(name)} among the tables of {'.'.join(place)}; "
                    "nothing was planned or changed"
                )
        return found

    def list_namespaces(self, namespace: str | Name = ()) -> list[Name]:
        """Raises UnbelievableListingError, and what PyIceberg raises."""
        self._check_endpoint(Capability.V1_LIST_NAMESPACES)
        parent = self.identifier_to_tuple(namespace)
        params = {"parent": self._encode_namespace_path(parent)} if parent else {}
        what = f"the namespaces of {'.'.join(parent) or self.name}"
        return [
            tuple(map(str, entry))
            for entry in self._entries(what, self.url(Endpoints.list_namespaces), "namespaces", **params)
        ]

    def _entries(self, what: str, url: str, field: str, **params: str) -> Iterator[Any]:
        size = self.properties.get(PAGE_SIZE)
        if size is not None:
            params["pageSize"] = str(size)
        return entries_of(what, field, params, lambda asked: self._page(url, asked))

    def _page(self, url: str, params: Mapping[str, str]) -> Any:
        response = self._session.get(url, params=dict(params))
        if response.status_code in EXPIRED:
            self._refresh_token()
            response = self._session.get(url, params=dict(params))
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            _handle_non_200_response(error, {404: NoSuchNamespaceError})
        return response.json()


def _whole(ask: Callable[..., Any], *asked: Any, **how: Any) -> Any:
    """An answer that was read to its end. The timeouts of a session do not end one that comes a byte at a time."""
    began = time.monotonic()
    answer = ask(*asked, **{**how, "stream": True})
    pieces: list[bytes] = []
    size = 0
    while piece := answer.raw.read1(PIECE, decode_content=True):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES or time.monotonic() - began > LONGEST_ANSWER:
            answer.close()
            raise TimeoutError(f"the answer of {answer.url} was not at its end after {size} bytes")
    # What `content` would have done, with bounds.
    answer._content, answer._content_consumed = b"".join(pieces), True
    return answer


class PatientTokens(OAuth2TokenProvider):
    """Tokens of an OAuth2 server that may be silent too: PyIceberg asks it without a timeout."""

    def __init__(self, asked: OAuth2TokenProvider, timeouts: tuple[float, float]) -> None:
        super().__init__(
            asked.client_id, asked.client_secret, asked.token_url, asked.scope, asked.refresh_margin, asked.expires_in
        )
        self._timeouts = timeouts

    def _refresh_token(self) -> None:
        asked = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        headers = {"Authorization": self._client_secret_header}
        answer = requests.post(self.token_url, data=asked, headers=headers, timeout=self._timeouts)
        answer.raise_for_status()
        found = answer.json()
        lasts = found.get("expires_in", self.expires_in)
        if lasts is None:
            raise ValueError(f"{self.token_url} does not say how long its token lasts, nor does the configuration")
        self._token = str(found["access_token"])
        self._expires_at = int(time.monotonic() + int(lasts) - self.refresh_margin)


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
