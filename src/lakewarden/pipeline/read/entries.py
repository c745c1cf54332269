"""What manifests name, packed: one row a manifest with a hash, a kind and a size for each of its entries. No Spark.

The task that proved manifests whole packs them, for the driver and for the cache. Nothing here is done entry by entry in
Python, and little manifest by manifest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.cache import (
    ENTRIES,
    ENTRY_ROWS,
    KEY_ROWS,
    KEYS,
    PACKED,
    CacheFiles,
    CacheWriter,
    known_rows,
    read_entry_rows,
    still_there,
)
from lakewarden.pipeline.read.hashing import Hashes, repeated_hashes
from lakewarden.pipeline.read.manifests import ReadTask, read_entries
from lakewarden.pipeline.read.names import LOCAL, directories

Batches = Iterable[pa.RecordBatch]
Sizes = NDArray[np.uint32]

# In place of a size that is not recorded, or that four bytes do not hold: the file itself is looked at.
UNSIZED = (1 << 32) - 1

# One row per manifest that was proven whole, under its number, per note, and per file that a task left in the cache.
# `names` only where the beginning that they have in common does not tell what has to be known of them.
READ = pa.schema(
    [
        ("number", pa.int32()),
        ("id", pa.string()),
        ("prefix", pa.string()),
        *((name, pa.binary()) for name in PACKED),
        ("names", pa.list_(pa.string())),
        ("directories", pa.list_(pa.string())),
        ("note", pa.string()),
        ("kept", pa.string()),
    ]
)


@dataclass(frozen=True)
class Entries:
    """What some manifests name, one after the other: how many entries each has, and of each entry its hash, whether the
    file is added, its kind and its size."""

    counts: NDArray[np.int64]
    hashes: Hashes
    added: NDArray[np.bool_]
    kinds: NDArray[np.int8]
    sizes: Sizes

    @staticmethod
    def of(rows: pa.Table) -> Entries:
        """Of rows of ENTRY_ROWS or READ."""
        counts = pc.binary_length(rows["added"]).to_numpy().astype(np.int64)
        kinds = (np.uint64, np.bool_, np.int8, np.uint32)
        return Entries(counts, *(_flat(rows[name], kind) for name, kind in zip(PACKED, kinds, strict=True)))

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each manifest's entries begin, and where the last one's end."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, … for each start, as many as its count, one after the other."""
    ends = np.cumsum(counts)
    found: NDArray[np.int64] = np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
    return found


def _flat(column: pa.ChunkedArray, kind: type[np.generic]) -> NDArray[Any]:
    """The numbers of all rows of a packed column, one after the other."""
    pieces = []
    for chunk in column.chunks:
        if len(chunk):
            offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
            data = memoryview(chunk.buffers()[2] or b"")[offsets[0] : offsets[-1]]
            pieces.append(np.frombuffer(data, kind))
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, kind), *pieces])


def _packed(values: NDArray[Any], starts: NDArray[np.int64]) -> pa.Array:
    """The numbers between two starts as the bytes of one row."""
    offsets = (starts * values.itemsize).astype(np.int32)
    data = pa.py_buffer(np.ascontiguousarray(values).tobytes())
    return pa.BinaryArray.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(offsets.tobytes()), data])


def pack(read: ReadTask, writer: CacheWriter, with_names: Callable[[str], bool] | None) -> Callable[[Batches], Batches]:
    """MANIFESTS in (a table's number is the manifest's), READ out.

    `with_names` says of what names begin with whether they have to be told; without it, nothing but the number of a
    proven manifest is.
    """

    def run(batches: Batches) -> Batches:
        seen: list[pa.RecordBatch] = []

        def noting(batches: Batches) -> Batches:
            for batch in batches:
                seen.append(batch)
                yield batch

        for numbers, marks, notes in read_entries(read)(noting(batches)):
            id = uuid.uuid4().hex
            asked = pa.Table.from_batches(seen)
            places = pc.index_in(pa.array(numbers, pa.int32()), asked[c.TABLE].combine_chunks())
            entries, names = packed_rows(asked.take(places), numbers, marks, id)
            told: list[dict[str, Any]] = [{"note": note} for note in notes]
            if entries.num_rows:
                files = [writer.write(ENTRIES, entries, id), writer.write(KEYS, names, id)]
                told += [{"kept": json.dumps(asdict(file))} for file in files]
            rows = pa.table({"number": pa.array(numbers, pa.int32()), "id": pa.repeat(id, len(numbers))})
            rows = rows.append_column("directories", entries["directories"])
            if with_names is not None:
                for name in ("prefix", *PACKED):
                    rows = rows.append_column(name, entries[name])
                rows = rows.append_column("names", _spread_names(entries, names[c.KEY], with_names))
            extra = pa.Table.from_pylist(told, schema=READ)
            yield from (
                pa.concat_tables([rows, extra], promote_options="default")
                .select(READ.names)
                .combine_chunks()
                .to_batches()
            )

    return run


def _spread_names(entries: pa.Table, names: pa.ChunkedArray, with_names: Callable[[str], bool]) -> pa.Array:
    """Of each manifest the names of its entries, or null where they need not be told."""
    ends = np.cumsum(pc.binary_length(entries["added"]).to_numpy()).tolist()
    told: list[list[str] | None] = []
    start = 0
    for prefix, end in zip(entries["prefix"].to_pylist(), ends, strict=True):
        told.append(names.slice(start, end - start).to_pylist() if end > start and with_names(prefix) else None)
        start = end
    return pa.array(told, pa.list_(pa.string()))


def packed_rows(manifests: pa.Table, numbers: Sequence[int], marks: pa.Table, id: str) -> tuple[pa.Table, pa.Table]:
    """ENTRY_ROWS and KEY_ROWS of proven MANIFESTS, whose NAMED files have their numbers as `table_id`."""
    owners = pc.index_in(marks[c.TABLE], pa.array(numbers, pa.int32())).to_numpy()
    if (owners[1:] < owners[:-1]).any():
        order = np.argsort(owners, kind="stable")
        marks, owners = marks.take(pa.array(order)), owners[order]
    starts = np.searchsorted(owners, np.arange(len(numbers) + 1))
    names = marks[c.KEY].combine_chunks()
    added = (marks[c.MARK].to_numpy() & c.MARK_DELETED) == 0
    kinds = marks[c.KIND].to_numpy().astype(np.int8)
    sizes = pc.fill_null(marks[c.SIZE], UNSIZED).to_numpy()
    sizes = np.where((sizes >= 0) & (sizes < UNSIZED), sizes, UNSIZED).astype(np.uint32)
    entries = pa.table(
        [
            *(manifests[name] for name in ("path", "length", c.HOME)),
            pa.array(_beginnings(names, owners, len(numbers)), pa.string()),
            *(_packed(values, starts) for values in (repeated_hashes(marks[c.KEY]), added, kinds, sizes)),
            _directories(names, owners, len(numbers)),
        ],
        schema=ENTRY_ROWS,
    )
    keys = pa.table(
        [
            pa.repeat(id, len(names)),
            manifests["path"].combine_chunks().take(pa.array(owners)),
            names,
            pa.array(kinds.astype(np.int32)),
            pa.array(added),
        ],
        schema=KEY_ROWS,
    )
    return entries, keys


def _directories(names: pa.Array, owners: NDArray[np.int64], count: int) -> pa.Array:
    """The directories of the local files of each owner, each once, with a slash at the end."""
    mine = pc.starts_with(names, LOCAL)
    above = pc.binary_join_element_wise(directories(names.filter(mine)), "", "/")
    pairs = pa.table({"owner": pa.array(owners).filter(mine), "directory": above}).group_by(["owner", "directory"])
    found = pairs.aggregate([]).sort_by("owner")
    starts = np.searchsorted(found["owner"].to_numpy(), np.arange(count + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), found["directory"].combine_chunks())


def _beginnings(names: pa.Array, owners: NDArray[np.int64], count: int) -> list[str]:
    """What all names of each owner begin with: the smallest and the largest of them agree on nothing more than all do."""
    found = [""] * count
    if len(names):
        ends = (
            pa.table({"owner": owners, "name": names}).group_by("owner").aggregate([("name", "min"), ("name", "max")])
        )
        columns = (ends[name].to_pylist() for name in ("owner", "name_min", "name_max"))
        for owner, least, most in zip(*columns, strict=True):
            found[owner] = _common(least, most)
    return found


def _common(one: str, other: str) -> str:
    """What two texts begin with, found by halving."""
    same, end = 0, min(len(one), len(other))
    while same < end:
        middle = (same + end + 1) // 2
        same, end = (middle, end) if one[:middle] == other[:middle] else (same, middle - 1)
    return one[:same]


def known_entries(cache: CacheFiles, manifests: pa.Table) -> pa.Table:
    """READ of those of these MANIFESTS that the cache knows, each under its place as its number.

    A manifest of no proven length is never known: another may have its name. Of a manifest that is lost or cut by now what
    the cache knows does not count.
    """
    asked = np.flatnonzero(pc.is_valid(manifests["length"]).to_numpy())
    found = [READ.empty_table()]
    for file in cache.of(ENTRIES):
        if not len(asked):
            break
        if (rows := read_entry_rows(cache.stores, file)) is None:
            continue
        at = known_rows(manifests.take(pa.array(asked)), rows)
        if not (at >= 0).any():
            continue
        cache.used.add(file.uri)
        mine = rows.take(pa.array(at[at >= 0])).select(["prefix", *PACKED, "directories"])
        blank = {name: pa.nulls(mine.num_rows, READ.field(name).type) for name in ("id", "names", "note", "kept")}
        table = pa.table({"number": pa.array(asked[at >= 0], pa.int32()), **blank})
        for name in mine.column_names:
            table = table.append_column(name, mine[name])
        found.append(table.select(READ.names).cast(READ))
        asked = asked[at < 0]
    rows = pa.concat_tables(found)
    return rows.filter(still_there(cache.stores, manifests.take(rows["number"].combine_chunks())))
