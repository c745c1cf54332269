"""All the stores of a deployment, opened when first asked for, with the credentials of the longest matching prefix."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.model.errors import ConfigError, StoreUnavailableError
from lakewarden.model.ports import Directory, Stat
from lakewarden.model.uri import STORES, FileUri, one_names, use_one_name
from lakewarden.storage.entries import entries_of, places_of
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.store import Store, unavailable
from lakewarden.storage.ways import Ways

_RETRY = {"max_retries": 3, "retry_timeout": {"seconds": 20}}
_NO_RETRY = {"max_retries": 0}
_DEFAULT_CLIENT = {"timeout": "60s", "connect_timeout": "5s"}

# Those asked for last. A server that vends credentials hands out new ones at every look at a table: in a process that
# lives for days each would leave a client behind that nobody asks again.
MOST_OPENED = 512
_opened: dict[tuple[str, tuple[tuple[str, str], ...]], Store] = {}
_memory: dict[str, Any] = {}
_lock = threading.Lock()


class Stores:
    """Finds the store of a canonical address. Picklable: only the options travel, never an open client.

    `options` is what the configuration says by prefix, `catalogs` what the properties of each catalog say of S3.
    """

    def __init__(
        self,
        options: Mapping[str, Mapping[str, str]] | None = None,
        catalogs: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        said = {_trim(prefix): dict(values) for prefix, values in (options or {}).items()}
        self._ways = Ways(said, catalogs={name: dict(values) for name, values in (catalogs or {}).items()})
        self._catalog: str | None = None

    def of(self, catalog: str) -> Stores:
        """The same stores as one catalog reaches them: what it asks for is reached as its own properties say."""
        view = Stores()
        view._ways, view._catalog = self._ways, catalog
        return view

    def claim(self, uri: str, catalog: str) -> None:
        """Take note that a catalog has its tables in the bucket of this address."""
        self._ways.claim(FileUri.parse(uri).store, catalog)

    def add(self, prefix: str, values: Mapping[str, str], catalog: str) -> None:
        """Credentials that a catalog vended for a prefix; what the configuration says of it stays."""
        self._ways.vend(catalog, _trim(prefix), dict(values))

    def __repr__(self) -> str:
        # Options hold secrets: only the prefixes are shown.
        return f"Stores({sorted({*self._ways.said, *self._ways.vended})})"

    def __getstate__(self) -> dict[str, Any]:
        return {"_ways": self._ways, "_catalog": self._catalog, "names": one_names()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A worker process compares addresses as the one that sent it does.
        use_one_name(state.pop("names"))
        self.__dict__.update(state)

    def at(self, uri: str) -> Store:
        """The store that holds this address, open. Raises ContestedStoreError where two catalogs would reach two."""
        place = FileUri.parse(uri)
        prefix, options = self._ways.to(place, self._catalog)
        mount = prefix.removeprefix("file:") or "/" if place.scheme == "file" else ""
        name = f"{place.store}{mount}"
        key = (name, tuple(sorted(options.items())))
        with _lock:
            store = _opened.pop(key, None)
            if store is None:
                store = LocalDisk(_mount(mount)) if place.scheme == "file" else _open(place, options)
            _opened[key] = store  # last, so that the first one is the one that was not asked for longest
            while len(_opened) > MOST_OPENED:
                del _opened[next(iter(_opened))]
            return store

    def get(self, uri: str) -> bytes:
        return self.at(uri).get(FileUri.parse(uri).key)

    def get_range(self, uri: str, start: int, length: int) -> bytes:
        return self.at(uri).get_range(FileUri.parse(uri).key, start, length)

    def get_many(self, uris: Sequence[str]) -> list[bytes | Exception]:
        """Every address's bytes or its error, in order, whatever stores they lie in."""
        found: list[bytes | Exception] = [b""] * len(uris)
        by_directory: dict[str, list[int]] = {}
        for i, uri in enumerate(uris):
            by_directory.setdefault(uri.rpartition("/")[0], []).append(i)
        by_store: dict[int, tuple[Store, list[int]]] = {}
        for places in by_directory.values():
            try:
                store = self.at(uris[places[0]])
            except StoreUnavailableError as error:
                for i in places:
                    found[i] = error
                continue
            by_store.setdefault(id(store), (store, []))[1].extend(places)
        for store, places in by_store.values():
            for i, answer in zip(places, store.get_many(_keys([uris[i] for i in places])), strict=True):
                found[i] = answer
        return found

    def head(self, uri: str) -> Stat | None:
        return self.at(uri).head(FileUri.parse(uri).key)

    def entries(self, prefix: str) -> Directory:
        """What lies directly in a directory; empty if it is not there. StoreUnavailableError for everything else."""
        return entries_of(self.at(prefix), FileUri.parse(FileUri.parse(prefix).as_prefix()).key)

    def places(self, prefix: str) -> Directory:
        """The same, with names told apart that cannot be carried or lead elsewhere."""
        return places_of(self.at(prefix), FileUri.parse(FileUri.parse(prefix).as_prefix()).key)

    def put(self, uri: str, data: bytes) -> None:
        self.at(uri).put(FileUri.parse(uri).key, data)

    def create(self, uri: str, data: bytes) -> bool:
        return self.at(uri).create(FileUri.parse(uri).key, data)


def _keys(uris: Sequence[str]) -> list[str]:
    """The keys of addresses, of which many lie in one directory: its spelling is looked at once."""
    found: list[str] = []
    above: str | None = None
    key_above = ""
    for uri in uris:
        directory, slash, name = uri.rpartition("/")
        # A step on the spot, or out of the way, is no name.
        if not slash or name in ("", ".", ".."):
            found.append(FileUri.parse(uri).key)
            continue
        if directory != above:
            above, key_above = directory, FileUri.parse(f"{directory}/x").key[:-1]
        found.append(key_above + name)
    return found


def _trim(prefix: str) -> str:
    """Without trailing slashes, so that `s3://bucket` never matches `s3://bucket2`. `s3://` becomes `s3:`."""
    scheme, separator, rest = prefix.partition("://")
    if separator and not rest.strip("/"):
        return str(FileUri.parse(f"{scheme}://{'' if scheme == 'file' else 'x'}/")).split("//")[0]
    return str(FileUri.parse(prefix)).rstrip("/")


def _mount(text: str) -> str:
    return "/" + text.strip("/")


def _open(place: FileUri, options: Mapping[str, str]) -> Store:
    """One bucket, twice: with retries, and without for conditional writes (a retried one denies its own success)."""
    if place.scheme == "memory":
        from obstore.store import MemoryStore

        return ObjectStore("memory", place.bucket, _memory.setdefault(place.bucket, MemoryStore()))
    try:
        return ObjectStore(
            place.scheme,
            place.bucket,
            _client(place, options, _RETRY),
            _client(place, options, _NO_RETRY),
            options,
            lambda seconds, connecting: _client(
                place, options, _NO_RETRY, {"timeout": f"{seconds}s", "connect_timeout": f"{connecting}s"}
            ),
        )
    except (ConfigError, StoreUnavailableError):
        raise
    except Exception as error:
        raise unavailable(error, f"opening {place.store}") from error


def _client(
    place: FileUri, options: Mapping[str, str], retry: Mapping[str, Any], limits: Mapping[str, str] | None = None
) -> Any:
    from datetime import timedelta

    from obstore.exceptions import UnknownConfigurationKeyError
    from obstore.store import AzureStore, GCSStore, S3Store

    config: Any = dict(options)
    plain = any(str(v).startswith("http://") for k, v in config.items() if "endpoint" in k)
    # An option of the connection, under which not every kind of store looks among its own.
    allow_http = str(config.pop("allow_http", plain)).lower() in ("1", "true", "yes", "y", "on")
    client: Any = dict(limits) if limits else {n: value for n, value in _DEFAULT_CLIENT.items() if n not in config}
    client["allow_http"] = allow_http
    config = {name: value for name, value in config.items() if name not in (limits or ())}
    retries: Any = dict(retry)
    if "retry_timeout" in retries:
        retries["retry_timeout"] = timedelta(**retries["retry_timeout"])
    common: dict[str, Any] = {"client_options": client, "retry_config": retries}
    try:
        if place.scheme == "s3":
            return S3Store(place.bucket, config=config, **common)
        if place.scheme == "gs":
            return GCSStore(place.bucket, config=config, **common)
        if place.scheme in ("abfs", "az"):
            container, _, account = place.bucket.partition("@")
            if account:
                config.setdefault("account_name", account.split(".")[0])
            return AzureStore(container, config=config, **common)
    except UnknownConfigurationKeyError as error:
        raise ConfigError(f'[storage."{place.store}"] has a key that the store does not know: {error}') from error
    raise StoreUnavailableError(
        f"no store can be opened for the scheme of {place}",
        hint=f"Nothing was changed. Stores of these schemes can be opened: {STORES}.",
    )
