"""Listing as a Spark step: shards in, one row per object out. Rust or the kernel lists; no row is a Python object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Full, Queue
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.ports import Shard
from lakewarden.model.uri import FileUri
from lakewarden.pipeline import columns as c
from lakewarden.storage.listing import list_names, list_shard, look_at
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


def list_shards(
    stores: Stores, *, bare: bool = False
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """SHARDS in, LISTED out. `bare`: of files on a local disk mostly the names, until `with_details` is asked."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shards = (_shard(row) for batch in batches for row in batch.to_pylist())
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in _listed(stores, shards, bare):
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


def _listed(stores: Stores, shards: Iterator[Shard], bare: bool) -> Iterator[pa.RecordBatch]:
    """Local shards one after the other (the kernel is the limit), remote ones side by side (waiting is)."""
    remote, here = [], []
    for shard in shards:
        if FileUri.parse(shard.prefix).scheme != "file":
            remote.append(shard)
        elif bare:
            here.append(shard)
        else:
            yield from _with_root(stores, shard)
    for runs, batch in list_names(stores, here):
        roots = pa.array(np.repeat([root for root, _ in runs], [count for _, count in runs]), pa.int32())
        yield pa.RecordBatch.from_arrays([roots, *batch.columns], schema=c.LISTED)
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


def with_details(
    listed: pa.RecordBatch, known: NDArray[np.bool_], sizes: NDArray[np.uint32]
) -> tuple[pa.RecordBatch, NDArray[np.bool_]]:
    """A bare listing with what it lacks: sizes where they are known, and whatever the disk says of the other files.

    Also which rows are left: a file that was removed since its directory was read is not there.
    """
    # A row that says why a name cannot be listed lacks nothing.
    bare = pc.and_(pc.is_null(listed[c.SIZE]), pc.is_null(listed[c.FLAG])).to_numpy(zero_copy_only=False)
    given = pc.if_else(pa.array(bare & known), pa.array(sizes.astype(np.int64)), listed[c.SIZE])
    columns = {name: listed[name] for name in c.LISTED.names} | {c.SIZE: given}
    there = np.ones(listed.num_rows, bool)
    asked = bare & ~known
    if asked.any():
        mask = pa.array(asked)
        found, still = look_at(listed[c.KEY].filter(mask).to_pylist())
        there[asked] = still
        for name in (c.SIZE, c.MODIFIED, c.ETAG, c.FLAG):
            columns[name] = pc.replace_with_mask(columns[name], mask, found[name])
    rows = pa.record_batch([columns[name] for name in c.LISTED.names], schema=c.LISTED)
    return (rows if there.all() else rows.filter(pa.array(there))), there


def _with_root(stores: Stores, shard: Shard) -> Iterator[pa.RecordBatch]:
    for batch in list_shard(stores, shard):
        root = pa.repeat(pa.scalar(shard.root_id, pa.int32()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([root, *batch.columns], schema=c.LISTED)
