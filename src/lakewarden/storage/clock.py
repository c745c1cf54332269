"""What time it is for a store: ages are judged by the clock that stamped the files."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from lakewarden.model.clock import Clock
from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.uri import FileUri
from lakewarden.storage.stores import Stores


def store_time(stores: Stores, uri_dir: str, worker_id: str) -> datetime:
    """The modification time the store gives to a probe object written now under `.lakewarden/`."""
    probe = _probe(uri_dir, worker_id)
    stores.put(probe, FileUri.parse(uri_dir).store.encode())
    found = stores.head(probe)
    if found is None or found.modified is None:
        raise StoreUnavailableError(f"the store gives no modification time for its probe {probe}")
    return found.modified


def skew(stores: Stores, uri_dir: str, worker_id: str, clock: Clock) -> timedelta:
    """How far the store's clock is ahead of ours, as near zero as one write's duration allows."""
    before = clock.now()
    theirs = store_time(stores, uri_dir, worker_id)
    after = clock.now()
    if theirs < before:
        return theirs - before
    return max(theirs - after, timedelta(0))


def name_of(stores: Stores, uri_dir: str, worker_id: str) -> str:
    """The store that the probe was written to last, by the name it was written under: another one than asked for if two
    names lead to one bucket. Raises FileNotFoundError, StoreUnavailableError."""
    return stores.get(_probe(uri_dir, worker_id)).decode(errors="replace")


def _probe(uri_dir: str, worker_id: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", worker_id)
    return f"{FileUri.parse(uri_dir).as_prefix()}.lakewarden/clock-{safe}"
