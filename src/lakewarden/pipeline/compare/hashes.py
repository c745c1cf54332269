"""The quick way to compare: live files as sorted 64-bit hashes that every listing task carries along.

No row of a live file crosses to the JVM and nothing is shuffled, which halves the time of a sweep. Two
files with one hash can only make an orphan look live, never the reverse. Above `MOST_LIVE` files the
hashes would weigh on the driver, and `pipeline.compare.by_join` joins in Spark instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pandas.util import hash_array

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.plan_files import PartTask, judge_and_write
from lakewarden.pipeline.read.manifests import ReadTask, read_manifests
from lakewarden.pipeline.read.names import SOFT, match_keys

MOST_LIVE = 4_000_000

# One row per table, directory of its own and task, with the hashes of the files in it (8 bytes each, and one for the
# kind) and the directory as key; one row per file elsewhere, and per note, with its own key.
REACHED = pa.schema(
    [
        (c.TABLE, pa.int32()),
        (c.KEY, pa.string()),
        (c.KIND, pa.int32()),
        (c.MARK, pa.int32()),
        ("hashes", pa.binary()),
        ("kinds", pa.binary()),
    ]
)
REACHED_DDL = f"{c.TABLE} int, {c.KEY} string, {c.KIND} int, {c.MARK} int, hashes binary, kinds binary"

Batches = Iterable[pa.RecordBatch]
Hashes = NDArray[np.uint64]


def key_hashes(keys: pa.Array) -> Hashes:
    """The same 64-bit hash for the same key in every process."""
    hashes: Hashes = hash_array(keys.to_numpy(zero_copy_only=False).astype(object), categorize=False)
    return hashes


def repeated_hashes(keys: pa.ChunkedArray) -> Hashes:
    """The hashes of keys that come up again and again, as in the manifests of many snapshots: each is hashed once."""
    encoded = pc.dictionary_encode(keys).unify_dictionaries().chunks
    if not encoded:
        return np.empty(0, np.uint64)
    indices = np.concatenate([chunk.indices.to_numpy() for chunk in encoded])
    return np.take(key_hashes(encoded[0].dictionary), indices)


@dataclass(frozen=True)
class Live:
    """Every live file under the swept roots: its hash (sorted, each once), its table, its kind.

    `released` has the (sorted) hashes of files that something needed which is about to go, `pending` those of the whole
    addresses of files that an earlier expiry released.
    """

    hashes: Hashes
    tables: NDArray[np.int32]
    kinds: NDArray[np.int8]
    released: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    pending: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    @staticmethod
    def of(hashes: Sequence[Hashes], tables: Sequence[NDArray[Any]], kinds: Sequence[NDArray[Any]]) -> Live:
        """All of them together; a file that two tables reach counts for the first, and for one that must have it."""
        values = np.concatenate([np.empty(0, np.uint64), *hashes])
        owners = np.concatenate([np.empty(0, np.int32), *tables]).astype(np.int32)
        codes = np.concatenate([np.empty(0, np.int8), *kinds]).astype(np.int8)
        order = np.lexsort((owners, codes >= SOFT, values))
        values = values[order]
        first = np.concatenate([[True], values[1:] != values[:-1]]) if len(values) else np.empty(0, bool)
        return Live(values[first], owners[order][first], codes[order][first])

    def has(self, keys: pa.Array) -> NDArray[np.bool_]:
        """Whether each of these keys is one of them."""
        return _places(self.hashes, key_hashes(keys))[1]

    def counts(self, tables: int) -> NDArray[np.int64]:
        """How many files each table needs under the swept roots."""
        return np.bincount(self.tables, minlength=tables)


def hash_manifests(read: ReadTask, own: Mapping[int, tuple[str, ...]]) -> Callable[[Batches], Batches]:
    """MANIFESTS in, REACHED out. `own` has each table's directories."""

    def run(batches: Batches) -> Batches:
        for marks in read_manifests(read, soft_kinds=True)(batches):
            yield from _packed(marks, own).to_batches()

    return run


def _packed(marks: pa.RecordBatch, own: Mapping[int, tuple[str, ...]]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    order = np.argsort(marks[c.TABLE].to_numpy(), kind="stable")
    marks = marks.take(pa.array(order))
    tables, starts = np.unique(marks[c.TABLE].to_numpy(), return_index=True)
    for table, start, end in zip(tables, starts, [*starts[1:], marks.num_rows], strict=True):
        part = marks.slice(start, end - start)
        for prefix in own.get(int(table), ()):
            inside = pc.and_(pc.starts_with(part[c.KEY], prefix), _is_live(part[c.MARK]))
            mine = part.filter(inside)
            if mine.num_rows:
                codes = mine[c.KIND].to_numpy().astype(np.int8).tobytes()
                rows.append(
                    {c.TABLE: int(table), c.KEY: prefix, "hashes": key_hashes(mine[c.KEY]).tobytes(), "kinds": codes}
                )
                part = part.filter(pc.invert(inside))
        rows += part.to_pylist()
    return pa.Table.from_pylist(rows, schema=REACHED)


def _is_live(marks: pa.Array) -> pa.Array:
    return pc.not_equal(pc.bit_wise_and(marks, c.MARK_LIVE), 0)


def list_and_judge(lister: Callable[[Batches], Batches], live: Live, part: PartTask) -> Callable[[Batches], Batches]:
    """Shards (or inventories) in, FACTS out: list, look each key up, judge what is not live, write the plan's files."""

    def run(batches: Batches) -> Batches:
        yield from judge_and_write(part)(joined(batch, live, part.homes) for batch in lister(batches) if batch.num_rows)

    return run


def joined(listed: pa.RecordBatch, live: Live, homes: Mapping[int, str]) -> pa.RecordBatch:
    """LISTED in, JOINED out: what a join with the live files would give, live rows without their names."""
    hashes = key_hashes(match_keys(listed[c.KEY], listed[c.ROOT], homes))
    addresses = key_hashes(listed[c.KEY]) if homes and len(live.pending) else hashes
    at, found = _places(live.hashes, hashes)
    _, released = _places(live.released, hashes)
    _, pending = _places(live.pending, addresses)
    missed = pa.array(~found)
    nothing = pa.scalar(None, pa.int32())
    columns = {name: listed[name] for name in c.LISTED.names}
    for name in (c.KEY, c.ETAG):
        columns[name] = pc.if_else(missed, columns[name], pa.scalar(None, pa.string()))
    if len(live.hashes):
        columns[c.TABLE] = pc.if_else(missed, nothing, pa.array(live.tables[at]))
        columns[c.KIND] = pc.if_else(missed, nothing, pa.array(live.kinds[at].astype(np.int32)))
    else:
        columns[c.TABLE] = columns[c.KIND] = pa.nulls(listed.num_rows, pa.int32())
    marks = np.where(found, c.MARK_LIVE, 0) | np.where(released, c.MARK_RELEASED, 0)
    marks |= np.where(pending, c.MARK_PENDING, 0)
    columns[c.MARK] = pa.array(marks, pa.int32())
    columns["other"] = pa.nulls(listed.num_rows, pa.int32())
    return pa.record_batch([columns[name] for name in c.JOINED.names], schema=c.JOINED)


def _places(known: Hashes, hashes: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each hash lies in the sorted ones, and whether it is among them."""
    if not len(known):
        return np.zeros(len(hashes), np.intp), np.zeros(len(hashes), bool)
    at = np.searchsorted(known, hashes)
    at[at == len(known)] = 0
    return at, known[at] == hashes
