"""Listing one shard of a root: every name in it, and plainly what could not be listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Shard
from lakewarden.model.uri import FileUri
from lakewarden.storage.listed_rows import LISTING_SCHEMA
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.shards import discover_shards
from lakewarden.storage.store import UNLISTABLE
from lakewarden.storage.stores import Stores
from lakewarden.storage.walk import Columns, look_at

__all__ = ["LISTING_SCHEMA", "discover_shards", "list_names", "list_shard", "look_at"]


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


def list_names(stores: Stores, shards: Iterable[Shard]) -> Iterator[tuple[list[tuple[int, int]], pa.RecordBatch]]:
    """LISTING_SCHEMA of shards on a local disk, together, with ordinary files by their names alone: `look_at` tells the
    rest of those that matter. Beside each batch, how many of its rows are of which root, in their order. Never raises."""
    columns = Columns()
    looked: list[tuple[int, int]] = []
    bare: list[tuple[int, int]] = []

    def taken() -> tuple[list[tuple[int, int]], pa.RecordBatch]:
        roots = [*looked, *bare]
        looked.clear()
        bare.clear()
        return roots, columns.taken()

    for shard in shards:
        before = len(columns.key), len(columns.bare)
        try:
            store = stores.at(shard.prefix)
            assert isinstance(store, LocalDisk), f"{shard.prefix} is on no local disk"
            for _ in store.list_names(columns, shard):
                looked.append((shard.root_id, len(columns.key) - before[0]))
                bare.append((shard.root_id, len(columns.bare) - before[1]))
                yield taken()
                before = 0, 0
        except Exception as error:  # an unknown failure makes the shard unknown, never empty
            if (reason := _reason(stores, shard, error)) is not None:
                columns.note(shard.prefix, UNLISTABLE + reason)
        looked.append((shard.root_id, len(columns.key) - before[0]))
        bare.append((shard.root_id, len(columns.bare) - before[1]))
    if len(columns):
        yield taken()


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
