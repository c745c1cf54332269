"""Listing as a Spark step: shards in, one row per object out. Rust or the kernel lists; no row is a Python object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Full, Queue
from threading import Event

import pyarrow as pa

from lakewarden.model.ports import Shard
from lakewarden.model.uri import FileUri
from lakewarden.pipeline import columns as c
from lakewarden.storage.listing import list_shard
from lakewarden.storage.stores import Stores

SHARDS = pa.schema(
    [
        (c.ROOT, pa.int32()),
        ("prefix", pa.string()),
        ("direct", pa.bool_()),
        ("after", pa.string()),
        ("until", pa.string()),
    ]
)
SHARDS_AT_ONCE = 16
BATCHES_WAITING = 64
ROWS_TOGETHER = 50_000


def shards_table(shards: list[Shard]) -> pa.Table:
    """SHARDS, dealt out so that neighbours (of one size, often) land in different tasks."""
    dealt = sorted(range(len(shards)), key=lambda i: (i * 2_654_435_761) % (1 << 32))
    rows = [shards[i] for i in dealt]
    return pa.table(
        {
            c.ROOT: [s.root_id for s in rows],
            "prefix": [s.prefix for s in rows],
            "direct": [s.direct for s in rows],
            "after": [s.after for s in rows],
            "until": [s.until for s in rows],
        },
        schema=SHARDS,
    )


def list_shards(stores: Stores) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """SHARDS in, LISTED out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shards = (_shard(row) for batch in batches for row in batch.to_pylist())
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in _listed(stores, shards):
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= ROWS_TOGETHER:
                yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
                waiting, rows = [], 0
        if waiting:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()

    return run


def _shard(row: dict[str, object]) -> Shard:
    return Shard(
        int(str(row[c.ROOT])), str(row["prefix"]), bool(row["direct"]), _text(row["after"]), _text(row["until"])
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _listed(stores: Stores, shards: Iterator[Shard]) -> Iterator[pa.RecordBatch]:
    """Local shards one after the other (the kernel is the limit), remote ones side by side (waiting is)."""
    remote = []
    for shard in shards:
        if FileUri.parse(shard.prefix).scheme == "file":
            yield from _with_root(stores, shard)
        else:
            remote.append(shard)
    if remote:
        yield from _side_by_side(stores, remote)


def _side_by_side(stores: Stores, shards: list[Shard]) -> Iterator[pa.RecordBatch]:
    """What several threads list, as it comes: few batches wait at a time, however many objects a shard has."""
    waiting: Queue[pa.RecordBatch | None] = Queue(BATCHES_WAITING)
    stopped = Event()

    def offer(item: pa.RecordBatch | None) -> None:
        while not stopped.is_set():
            try:
                return waiting.put(item, timeout=1)
            except Full:
                continue

    def list_one(shard: Shard) -> None:
        try:
            for batch in _with_root(stores, shard):
                offer(batch)
                if stopped.is_set():
                    return
        finally:
            offer(None)

    with ThreadPoolExecutor(SHARDS_AT_ONCE) as pool:
        listing = [pool.submit(list_one, shard) for shard in shards]
        try:
            for _ in shards:
                while (batch := waiting.get()) is not None:
                    yield batch
        finally:
            stopped.set()
            for future in listing:
                future.cancel()
    for future in listing:
        future.result()


def _with_root(stores: Stores, shard: Shard) -> Iterator[pa.RecordBatch]:
    for batch in list_shard(stores, shard):
        root = pa.repeat(pa.scalar(shard.root_id, pa.int32()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([root, *batch.columns], schema=c.LISTED)
