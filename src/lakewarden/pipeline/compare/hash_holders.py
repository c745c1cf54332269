"""The quick way to know what holders need: every manifest is read once, by tasks, into 64-bit hashes and signs.

The driver sums them up for each holder. As in `pipeline.compare.hashes`, two files with one hash can only make one that may go
look needed; and above `MOST_LIVE` entries `pipeline.compare.join_holders` sums in Spark instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lakewarden.model.roots import match_key
from lakewarden.model.table import Hold
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.by_join import Cached, dealt, manifests_of
from lakewarden.pipeline.compare.hashes import MOST_LIVE, Hashes, Live, key_hashes, repeated_hashes
from lakewarden.pipeline.compare.holders import Holdings
from lakewarden.pipeline.read.manifests import NOTE, ReadTask, read_entries, read_lists
from lakewarden.pipeline.read.names import KIND_CODES

FEW_MANIFESTS = 64
# An expiry reads every snapshot's list. Up to so many the driver is done before a Spark stage has begun.
FEW_LISTS = 6_000

# One row per batch of manifests: how many entries each has, by its number; what they name, hashed, whether each is added
# (1) or deleted (0), its kind. One row per note.
ENTRIES = pa.schema(
    [
        ("numbers", pa.binary()),
        ("counts", pa.binary()),
        ("hashes", pa.binary()),
        ("added", pa.binary()),
        ("kinds", pa.binary()),
        ("note", pa.string()),
    ]
)
ENTRIES_DDL = "numbers binary, counts binary, hashes binary, added binary, kinds binary, note string"

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Settled:
    """What holders need and what would be released, as hashes; notes of what could not be read."""

    live: Live
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Entries:
    """What one manifest names."""

    hashes: Hashes
    added: NDArray[np.bool_]
    kinds: NDArray[np.int8]

    @staticmethod
    def of(row: Mapping[str, bytes]) -> Entries:
        """Those of all manifests of a row of ENTRIES."""
        added, kinds = np.frombuffer(row["added"], np.bool_), np.frombuffer(row["kinds"], np.int8)
        return Entries(np.frombuffer(row["hashes"], np.uint64), added, kinds)

    def between(self, start: int, end: int) -> Entries:
        return Entries(self.hashes[start:end], self.added[start:end], self.kinds[start:end])


def settle(spark: SparkSession, holdings: Holdings, read: ReadTask) -> Settled | None:
    """What the holders need, or None if that is too much to carry."""
    read = replace(read, cache=None)
    named, notes = _manifests(spark, holdings, read)
    holds = np.array(holdings.rows["hold"].to_pylist(), object)
    # One that any holder must have is certain, whatever another one says of it.
    opened = named.filter(pc.not_equal(named["content"], c.CONTENT_SIDECAR)).sort_by("soft")
    paths = pc.unique(opened["path"])
    numbers = pc.index_in(opened["path"], paths).to_numpy()
    _, firsts = np.unique(numbers, return_index=True)
    once = opened.take(pa.array(firsts))
    once = once.set_column(once.schema.get_field_index(c.TABLE), c.TABLE, pa.array(np.arange(len(paths)), pa.int32()))
    if (pc.sum(once["rows"]).as_py() or 0) > MOST_LIVE:
        return None
    entries, more = _entries(spark, once.select(c.MANIFESTS.names).cast(c.MANIFESTS), read)
    notes += _of_every_table(more, holdings, numbers, opened[c.TABLE].to_numpy()) if more else []
    return Settled(_summed(holdings, holds, named, opened[c.TABLE].to_numpy(), numbers, entries), tuple(notes))


def _manifests(spark: SparkSession, holdings: Holdings, read: ReadTask) -> tuple[pa.Table, list[str]]:
    """MANIFESTS of every holder, and notes."""
    wanted = holdings.wanted
    if wanted.lists.num_rows <= FEW_LISTS:
        found = pa.Table.from_batches(read_lists(read)(iter(wanted.lists.to_batches())), schema=c.MANIFESTS)
        found = pa.concat_tables([found, wanted.manifests])
    else:
        found = manifests_of(spark, wanted, read, Cached()).toArrow().cast(c.MANIFESTS)
    noted = pc.starts_with(found["path"], NOTE)
    return found.filter(pc.invert(noted)), found.filter(noted)["path"].to_pylist()


def _entries(spark: SparkSession, manifests: pa.Table, read: ReadTask) -> tuple[dict[int, list[Entries]], list[str]]:
    if manifests.num_rows <= FEW_MANIFESTS:
        rows = pa.Table.from_batches(pack_entries(read)(iter(manifests.to_batches())), schema=ENTRIES)
    else:
        rows = dealt(spark, manifests).mapInArrow(pack_entries(read), ENTRIES_DDL).toArrow()
    found: dict[int, list[Entries]] = {}
    notes: list[str] = []
    for row in rows.to_pylist():
        if row["note"] is not None:
            notes.append(row["note"])
            continue
        several = Entries.of(row)
        ends = np.cumsum(np.frombuffer(row["counts"], np.int64))
        for number, start, end in zip(np.frombuffer(row["numbers"], np.int32).tolist(), [0, *ends], ends, strict=False):
            found.setdefault(number, []).append(several.between(start, end))
    return found, notes


def pack_entries(read: ReadTask) -> Callable[[Batches], Batches]:
    """MANIFESTS in (a table's number is the manifest's), ENTRIES out. The manifest itself is not among its entries."""

    def run(batches: Batches) -> Batches:
        for several, notes in read_entries(read)(batches):
            rows = [*({"note": note} for note in notes), *(_pack(marks) for marks in several)]
            yield from pa.Table.from_pylist(rows, schema=ENTRIES).to_batches()

    return run


def _pack(marks: pa.Table) -> dict[str, bytes]:
    owners = marks[c.TABLE].to_numpy()
    if (owners[1:] < owners[:-1]).any():
        marks = marks.take(pa.array(np.argsort(owners, kind="stable")))
        owners = marks[c.TABLE].to_numpy()
    numbers, counts = np.unique(owners, return_counts=True)
    return {
        "numbers": numbers.astype(np.int32).tobytes(),
        "counts": counts.astype(np.int64).tobytes(),
        "hashes": repeated_hashes(marks[c.KEY]).tobytes(),
        "added": ((marks[c.MARK].to_numpy() & c.MARK_DELETED) == 0).tobytes(),
        "kinds": marks[c.KIND].to_numpy().astype(np.int8).tobytes(),
    }


def _summed(
    holdings: Holdings,
    holds: NDArray[np.object_],
    named: pa.Table,
    owners: NDArray[np.int32],
    numbers: NDArray[np.int64],
    entries: Mapping[int, list[Entries]],
) -> Live:
    """What each holder needs, added up over all of them."""
    tables = np.array(holdings.tables, np.int32)
    released = holdings.rows[c.MARK].to_numpy() == c.MARK_RELEASED
    gone: list[Hashes] = []
    hashes: list[Hashes] = []
    owned: list[NDArray[np.int32]] = []
    kinds: list[NDArray[np.int8]] = []

    def note(holder: int, several: Hashes, codes: NDArray[np.int8]) -> None:
        if released[holder]:
            gone.append(several)
        else:
            hashes.append(several)
            kinds.append(codes)
            owned.append(np.full(len(several), tables[holder], np.int32))

    for holder, places in _by_holder(owners):
        parts = [part for number in numbers[places].tolist() for part in entries.get(number, ())]
        note(holder, *_needed(str(holds[holder]), parts))
    for keys, codes, of in (_manifest_keys(named), _named_keys(holdings)):
        digest = key_hashes(keys) if len(keys) else np.empty(0, np.uint64)
        for holder, places in _by_holder(of):
            note(holder, digest[places], codes[places])
    live = Live.of(hashes, owned, kinds)
    return replace(live, released=np.unique(np.concatenate([np.empty(0, np.uint64), *gone])))


def _by_holder(of: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each holder, and the places of what is its own."""
    order = np.argsort(of, kind="stable")
    holders, starts = np.unique(of[order], return_index=True)
    yield from zip(holders.tolist(), np.split(order, starts)[1:], strict=True)


def _needed(hold: str, parts: list[Entries]) -> tuple[Hashes, NDArray[np.int8]]:
    """The files that a holder keeps, of those its manifests name."""
    hashes = np.concatenate([np.empty(0, np.uint64), *(part.hashes for part in parts)])
    kinds = np.concatenate([np.empty(0, np.int8), *(part.kinds for part in parts)])
    added = np.concatenate([np.empty(0, bool), *(part.added for part in parts)])
    if hold == Hold.ADDED:
        return hashes[added], kinds[added]
    if hold != Hold.NET:
        return hashes, kinds
    values, firsts, places = np.unique(hashes, return_index=True, return_inverse=True)
    net = np.bincount(places, weights=np.where(added, 1, -1), minlength=len(values)) > 0
    return values[net], kinds[firsts][net]


def _manifest_keys(named: pa.Table) -> tuple[pa.Array, NDArray[np.int8], NDArray[np.int32]]:
    """The manifests themselves, once a holder."""
    pairs = named.select([c.TABLE, "path", c.HOME]).group_by([c.TABLE, "path", c.HOME]).aggregate([])
    homes = pairs[c.HOME].to_pylist()
    keys = [match_key(path, home) for path, home in zip(pairs["path"].to_pylist(), homes, strict=True)]
    codes = np.full(len(keys), KIND_CODES[Kind.MANIFEST], np.int8)
    return pa.array(keys, pa.string()), codes, pairs[c.TABLE].to_numpy()


def _named_keys(holdings: Holdings) -> tuple[pa.Array, NDArray[np.int8], NDArray[np.int32]]:
    named = holdings.wanted.named
    return named[c.KEY].combine_chunks(), named[c.KIND].to_numpy().astype(np.int8), named[c.TABLE].to_numpy()


def _of_every_table(
    notes: Iterable[str], holdings: Holdings, numbers: NDArray[np.int64], holders: NDArray[np.int32]
) -> list[str]:
    """Notes of manifests, said of a holder of every table that has the manifest: clones share them."""
    tables = np.array(holdings.tables, np.int32)[holders]
    found = []
    for note in notes:
        told = json.loads(note.removeprefix(NOTE))
        mine = numbers == told["table"]
        _, firsts = np.unique(tables[mine], return_index=True)
        found += [NOTE + json.dumps(told | {"table": int(holder)}) for holder in holders[mine][firsts]]
    return found
