"""Listing one shard of a root: every name in it, and plainly what could not be listed."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Shard
from lakewarden.model.uri import FileUri
from lakewarden.storage.shards import discover_shards
from lakewarden.storage.store import LISTING_SCHEMA, UNLISTABLE
from lakewarden.storage.stores import Stores

__all__ = ["LISTING_SCHEMA", "discover_shards", "list_shard"]


def list_shard(stores: Stores, shard: Shard) -> Iterator[pa.RecordBatch]:
    """LISTING_SCHEMA, one row per name in the shard. Never raises: what cannot be listed is an `unlistable` row."""
    place = FileUri.parse(shard.prefix)
    try:
        store = stores.at(shard.prefix)
        yield from store.list(place.key, after=shard.after, until=shard.until, direct=shard.direct)
    except Exception as error:  # an unknown failure makes the shard unknown, never empty
        reason = _reason(stores, shard, error)
        if reason is not None:
            yield _note(shard.prefix, reason)


def _reason(stores: Stores, shard: Shard, error: Exception) -> str | None:
    """Why a shard could not be listed. None: the directory is not there, but the store that should hold it is."""
    try:
        if not stores.at(shard.prefix).exists_root():
            return "missing"
    except StoreUnavailableError as second:
        return second.message
    if isinstance(error, FileNotFoundError):
        return None
    message = error.message if isinstance(error, StoreUnavailableError) else f"{type(error).__name__}: {error}"
    return message.replace("\n", " ")[:300]


def _note(prefix: str, reason: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"key": prefix, "flag": UNLISTABLE + reason}], schema=LISTING_SCHEMA)
