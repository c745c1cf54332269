"""How each store is reached: as the configuration says, as a server handed out, or as a catalog's own properties say.

Endpoints and credentials belong to a catalog. Two catalogs may have a bucket of one name at two endpoints: a file of one
must never be looked for, or written, in the other's.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.model.errors import ContestedStoreError
from lakewarden.model.uri import FileUri

Options = dict[str, str]
_ENDPOINT = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url")


@dataclass(repr=False)
class Ways:
    """Options by prefix (`said` by the configuration, `vended` by a catalog's server), and each catalog's own for S3.

    A bucket that no prefix speaks of is the first catalog's that asks for it. Another catalog that would reach it in
    another way makes it `contested`, for everybody and for good: whose files have been read there, nobody can tell.
    """

    said: dict[str, Options] = field(default_factory=dict)
    vended: dict[str, tuple[str, Options]] = field(default_factory=dict)
    catalogs: dict[str, Options] = field(default_factory=dict)
    claimed: dict[str, str] = field(default_factory=dict)
    contested: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            names = ("said", "vended", "catalogs", "claimed", "contested")
            return {name: dict(getattr(self, name)) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=threading.Lock())

    def to(self, place: FileUri, catalog: str | None) -> tuple[str, Options]:
        """The prefix that speaks of an address ("" if none does) and the options, as a catalog or (None) anybody reaches it.

        Raises ContestedStoreError where two ways are possible.
        """
        uri = str(place)
        with self.lock:
            self._uncontested(place.store, uri)
            prefix = _longest(uri, (*self.said, *self.vended))
            if prefix in self.said:
                return prefix, self.said[prefix]
            if prefix:
                owner, options = self.vended[prefix]
                if catalog not in (None, owner) and not _one_service(options, self.catalogs.get(str(catalog), {})):
                    self._contest(prefix, owner, str(catalog), uri)
                return prefix, options
            if place.scheme != "s3" or not self.catalogs:
                return "", {}
            return "", self._own(place.store, catalog, uri)

    def vend(self, catalog: str, prefix: str, options: Options) -> None:
        """What a catalog's server handed out for a prefix; newer ones take the place of older ones."""
        with self.lock:
            held = self.vended.get(prefix)
            if held is not None and held[0] != catalog and not _one_service(held[1], options):
                self.contested.setdefault(prefix, _words(held[0], catalog))
                return
            self.vended[prefix] = (catalog, options)

    def claim(self, store: str, catalog: str) -> None:
        """A bucket that a catalog is known to use. Two that would reach it in two ways make it contested."""
        with self.lock:
            owner = self.claimed.setdefault(store, catalog)
            if not self._agree(owner, catalog):
                self.contested.setdefault(store, _words(owner, catalog))

    def _own(self, store: str, catalog: str | None, uri: str) -> Options:
        if catalog is not None and catalog in self.catalogs:
            owner = self.claimed.setdefault(store, catalog)
            if not self._agree(owner, catalog):
                self._contest(store, owner, catalog, uri)
            return self.catalogs[owner]
        if store in self.claimed:
            return self.catalogs[self.claimed[store]]
        # A catalog without properties for S3 counts only if it has tables there: it reaches them by the environment.
        used = [name for name, options in self.catalogs.items() if options or name in self.claimed.values()]
        for other in used[1:]:
            if not self._agree(used[0], other):
                # Not for good: a catalog may ask for this bucket yet, and make it its own.
                raise _refusal(uri, f"{_words(used[0], other)}, and neither is known to have tables there")
        return self.catalogs[used[0]] if used else {}

    def _agree(self, one: str, other: str) -> bool:
        """Whether two catalogs reach S3 at one endpoint as one user. Where they differ in a region alone, the first is used."""
        return _user(self.catalogs[one]) == _user(self.catalogs[other])

    def _contest(self, prefix: str, one: str, other: str, uri: str) -> None:
        self.contested.setdefault(prefix, _words(one, other))
        raise _refusal(uri, self.contested[prefix])

    def _uncontested(self, store: str, uri: str) -> None:
        if not self.contested or _longest(uri, self.said):
            return
        for prefix in (store, _longest(uri, self.contested)):
            if prefix in self.contested:
                raise _refusal(uri, self.contested[prefix])


def _words(one: str, other: str) -> str:
    return f"the catalogs {one} and {other} reach it with different endpoints or credentials"


def _refusal(uri: str, why: str) -> ContestedStoreError:
    return ContestedStoreError(f"which store holds {uri} is not known: {why}; nothing there was read or changed")


def _one_service(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two sets of options lead to one endpoint. Credentials that servers hand out always differ."""
    return _endpoint(one) == _endpoint(other)


def _user(options: Mapping[str, str]) -> tuple[str | None, ...]:
    names = ("access_key_id", "secret_access_key", "session_token")
    return (_endpoint(options), *(options.get(name) for name in names))


def _endpoint(options: Mapping[str, str]) -> str | None:
    return next((options[name].rstrip("/") for name in _ENDPOINT if options.get(name)), None)


def _longest(uri: str, prefixes: Any) -> str:
    fits = [prefix for prefix in prefixes if uri == prefix or uri.startswith(f"{prefix}/")]
    return max(fits, key=len, default="")
