"""A compare-and-swap register: one small document that changes only from the state its writer saw."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Protocol

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.uri import FileUri
from lakewarden.storage.conditions import PROBE, prove
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.scratch import REGISTER_SUFFIX, drop_record
from lakewarden.storage.store import Ambiguous, Conflict
from lakewarden.storage.stores import Stores

__all__ = ["Ambiguous", "Conflict", "CreateOnly", "IfMatch", "Register", "open_register", "registers"]

KEPT_RECORDS = 8
_READ_TRIES = 50


class Register(Protocol):
    def read(self) -> tuple[bytes, str] | None:
        """The document and the token that a write needs; None if it was never written."""
        ...

    def write(self, data: bytes, token: str | None) -> str:
        """Replace what `token` named (None: nothing). Raises Conflict, or Ambiguous: then read back."""
        ...


class IfMatch:
    """One object, swapped by its tag (S3, GCS, Azure, memory). Tags may repeat: the document must hold a counter.

    Before the first write the store has to show that it keeps conditions: else two workers would hold one lease.
    """

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key

    def read(self) -> tuple[bytes, str] | None:
        return self._store.read_tagged(self._key)

    def write(self, data: bytes, token: str | None) -> str:
        prove(self._store, f"{self._key.rpartition('/')[0]}/{PROBE}".lstrip("/"))
        return self._store.swap(self._key, data, token)


class CreateOnly:
    """Numbered records in a directory; the highest is the document (local disk has no swap).

    Old records are trimmed. A writer that stalled before creating record N could then create it again
    after it was trimmed, so a boundary is raised durably before trimming and checked after creating. A boundary
    beyond N does not say which it was: one that stalled after creating N in its turn finds the same.
    """

    def __init__(self, disk: LocalDisk, key: str) -> None:
        self._disk = disk
        self._key = key
        self._directory = f"/{key}"

    def read(self) -> tuple[bytes, str] | None:
        for _ in range(_READ_TRIES):
            newest, _boundary, _names = self._state()
            if newest == 0:
                return None
            try:
                return self._disk.get(f"{self._key}/{newest:020d}"), str(newest)
            except FileNotFoundError:
                continue  # trimmed between the look and the read: a newer one is there
        raise StoreUnavailableError(f"the register {self._directory} changes faster than it can be read")

    def write(self, data: bytes, token: str | None) -> str:
        number = int(token or 0) + 1
        if self._state()[0] != number - 1:
            raise Conflict(self._directory)
        if not self._disk.create(f"{self._key}/{number:020d}", data):
            raise Conflict(self._directory)
        try:
            newest, boundary, names = self._state()
        except StoreUnavailableError as error:
            raise Ambiguous(f"record {number} of {self._directory} was written, its boundary not read") from error
        if boundary > number:
            raise Ambiguous(f"others wrote {self._directory} beyond record {number} before it was looked at again")
        if newest == number and number - boundary > 2 * KEPT_RECORDS:
            self._trim(number - KEPT_RECORDS, names)
        return str(number)

    def _trim(self, boundary: int, names: list[str]) -> None:
        try:
            self._disk.create(f"{self._key}/boundary-{boundary:020d}", b"")
        except StoreUnavailableError:
            return  # not durable, so nothing is trimmed; old records are harmless
        for name in names:
            number = int(name.removeprefix("boundary-"))
            if number < boundary:
                drop_record(self._directory, name)

    def _state(self) -> tuple[int, int, list[str]]:
        try:
            names = [n for n in os.listdir(self._directory) if n.removeprefix("boundary-").isdigit()]
        except FileNotFoundError:
            return 0, 0, []
        except OSError as error:
            raise StoreUnavailableError(f"the register {self._directory} cannot be listed: {error}") from error
        newest = max((int(n) for n in names if n.isdigit()), default=0)
        boundary = max((int(n[9:]) for n in names if not n.isdigit()), default=0)
        return newest, boundary, names


def open_register(stores: Stores, uri: str) -> Register:
    """The register at this address, with the driver its store needs. The address must end in `.register`."""
    place = FileUri.parse(uri)
    if not place.key.endswith(REGISTER_SUFFIX):
        raise ValueError(f"a register's name ends in {REGISTER_SUFFIX}: {uri}")
    store = stores.at(uri)
    if isinstance(store, LocalDisk):
        return CreateOnly(store, place.key)
    if isinstance(store, ObjectStore):
        return IfMatch(store, place.key)
    raise StoreUnavailableError(f"no register is possible on {place.store}")


def registers(stores: Stores, directory: str, since: datetime | None = None) -> list[str]:
    """The addresses of all registers directly in a directory; `since`: those that were written to then or later."""
    place = FileUri.parse(directory)
    store = stores.at(directory)
    if isinstance(store, LocalDisk):
        keys = [child.rstrip("/") for child in store.children(place.key)[0]]
        found = [f"{place.store}/{key}" for key in keys if since is None or _modified(f"/{key}") >= since]
    else:
        found = [
            key
            for batch in store.list(place.key, direct=True)
            for key, at in zip(batch["key"].to_pylist(), batch["modified"].to_pylist(), strict=True)
            if since is None or at is None or at >= since
        ]
    return sorted(uri for uri in found if uri.endswith(REGISTER_SUFFIX))


def _modified(path: str) -> datetime:
    """When a record was last added to a directory; in doubt, just now."""
    try:
        return datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    except OSError:
        return datetime.max.replace(tzinfo=UTC)
