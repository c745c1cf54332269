"""The comparison by hashes: what holders need, as sorted 64-bit hashes that every listing task carries along.

No row of a needed file crosses to the JVM and nothing is shuffled, which halves the time of a comparison. Two files with
one hash can only make a file that may go look needed, never the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.roots import match_key
from lakewarden.model.table import Hold
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import Holders, by_holder, kept
from lakewarden.pipeline.compare.needs import Contents, Named
from lakewarden.pipeline.compare.plan_files import JudgeTask, judge_and_write
from lakewarden.pipeline.read.entries import UNSIZED, Sizes, ranges
from lakewarden.pipeline.read.hashing import Hashes, key_hashes
from lakewarden.pipeline.read.listing import with_details
from lakewarden.pipeline.read.names import KIND_CODES, SOFT, match_keys
from lakewarden.pipeline.read.places import BY_NAME_ROOT, Places
from lakewarden.storage.store import SYMLINK

Batches = Iterable[pa.RecordBatch]

_NO_HASHES: Hashes = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Live:
    """Every needed file: its hash (sorted, each once), a table that needs it, its kind, the root that it lies in, and the
    size that metadata records, or UNSIZED.

    `released` has the (sorted) hashes of files that something needed which is about to go; `pending` those of the whole
    addresses of files that an earlier expiry released; `seen` the addresses that enough earlier plans called orphans.
    """

    hashes: Hashes
    tables: NDArray[np.int32]
    kinds: NDArray[np.int8]
    roots: NDArray[np.int32]
    sizes: Sizes
    released: Hashes = field(default_factory=lambda: _NO_HASHES)
    pending: Hashes = field(default_factory=lambda: _NO_HASHES)
    seen: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))

    def under(self, roots: Iterable[int]) -> Live:
        """Only what lies under these roots, or is known by name: the rest is never listed."""
        kept = np.isin(self.roots, [*roots, BY_NAME_ROOT])
        if kept.all():
            return self
        columns = {name: getattr(self, name)[kept] for name in ("hashes", "tables", "kinds", "roots", "sizes")}
        return replace(self, **columns)

    def carried(self) -> Live:
        """What a task has to carry: no listed file is asked for its root."""
        return replace(self, roots=np.empty(0, np.int32))

    def has(self, keys: pa.Array) -> NDArray[np.bool_]:
        """Whether each of these keys is one of them."""
        return _places(self.hashes, key_hashes(keys))[1]

    def counts(self) -> dict[int, int]:
        """How many files each table needs."""
        tables, counts = np.unique(self.tables, return_counts=True)
        return dict(zip(tables.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True)
class Summed:
    """What all holders need together, and which tables have needed files under which roots."""

    live: Live
    touches: frozenset[tuple[int, int]]


class _Sum:
    """Adds up what holders need: hashes with their holder, kind, root and size."""

    def __init__(self, holders: Holders) -> None:
        self._holders = holders
        self._parts: list[tuple[NDArray[Any], ...]] = []

    def add(self, *columns: NDArray[Any]) -> None:
        """Holders, hashes, kinds, roots, sizes, one member a file."""
        self._parts.append(columns)

    def summed(self) -> Summed:
        """A file that two tables need counts for the first, and for one that must have it."""
        kinds_of = (np.int64, np.uint64, np.int8, np.int32, np.uint32)
        empty = [np.empty(0, kind) for kind in kinds_of]
        owners, hashes, kinds, roots, sizes = (
            np.concatenate(several) for several in zip(empty, *self._parts, strict=True)
        )
        gone = self._holders.released[owners]
        released = np.unique(hashes[gone]) if gone.any() else _NO_HASHES
        if len(released):
            owners, hashes, kinds, roots, sizes = (array[~gone] for array in (owners, hashes, kinds, roots, sizes))
        tables = self._holders.tables[owners]
        order = _first_of_each(hashes, kinds, tables)
        columns = (hashes[order], tables[order], kinds[order], roots[order], sizes[order])
        return Summed(Live(*columns, released), _touches(tables, roots))


def _first_of_each(hashes: Hashes, kinds: NDArray[np.int8], tables: NDArray[np.int32]) -> NDArray[np.intp]:
    """Where each hash is, in their order: of several places the one that must have the file, and of these the first table."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    # Few hashes are there twice, and only those have to be put in order by more than themselves.
    several = np.concatenate([[False], same]) | np.concatenate([same, [False]])
    places = order[several]
    order[several] = places[np.lexsort((tables[places], kinds[places] >= SOFT, hashes[places]))]
    first: NDArray[np.intp] = order[np.concatenate([[True], ~same])]
    return first


def _touches(tables: NDArray[np.int32], roots: NDArray[np.int32]) -> frozenset[tuple[int, int]]:
    pairs = np.unique((tables.astype(np.int64) << 32 | roots)[roots >= 0])
    return frozenset(zip((pairs >> 32).tolist(), (pairs & 0xFFFFFFFF).tolist(), strict=True))


def sum_up(named: Named, contents: Contents, places: Places) -> Summed:
    """What each holder needs, added up over all of them."""
    holders, total = named.holders, _Sum(named.holders)
    owners = holders.firsts[named.opened[c.TABLE].to_numpy()]
    soft = named.opened["soft"].to_numpy(zero_copy_only=False).astype(np.int8)
    order = np.lexsort((soft, named.numbers, owners))
    pairs = np.stack([owners[order], named.numbers[order]])
    first = np.concatenate([[True], (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)]) if len(order) else order.astype(bool)
    rows = order[first]
    at = np.full(named.once.num_rows, -1)
    at[contents.numbers] = np.arange(len(contents.numbers))
    rows = rows[at[named.numbers[rows]] >= 0]
    everything = (holders.holds == str(Hold.ALL))[owners[rows]]
    # Taken once: each snapshot of a Paimon table is a holder, and what is taken for each of them costs their square.
    starts, of, manifests, softness = contents.entries.starts, owners[rows], at[named.numbers[rows]], soft[rows]
    _add(total, of[everything], manifests[everything], softness[everything], contents, starts, None)
    of, manifests, softness = (column[~everything] for column in (of, manifests, softness))
    for holder, mine in by_holder(of):
        _add(total, of[mine], manifests[mine], softness[mine], contents, starts, str(holders.holds[holder]))
    same = _alike(holders)
    for keys, kinds, of, sizes in (_manifest_keys(named), _named_keys(holders)):
        hashes = key_hashes(keys) if len(keys) else _NO_HASHES
        total.add(same[of], hashes, kinds, places.roots_of(keys), sizes)
    return total.summed()


def _add(
    total: _Sum,
    owners: NDArray[Any],
    manifests: NDArray[np.int64],
    soft: NDArray[np.int8],
    contents: Contents,
    starts: NDArray[np.int64],
    hold: str | None,
) -> None:
    """What these manifests name, each for its holder: all of it, or what the one holder's rule keeps."""
    entries = contents.entries
    counts = entries.counts[manifests]
    index = ranges(starts[manifests], counts)
    kinds = entries.kinds[index] | np.repeat(soft * np.int8(SOFT), counts)
    hashes, of = entries.hashes[index], np.repeat(owners, counts)
    if hold is not None:
        # The least kind of a file is certain where any of its manifests is.
        stays = kept(hold, hashes, entries.added[index], kinds)
        index, kinds, hashes, of = index[stays], kinds[stays], hashes[stays], of[stays]
    total.add(of, hashes, kinds, contents.roots[index], entries.sizes[index])


def _alike(holders: Holders) -> NDArray[np.int64]:
    """For each holder the first one of the same table on the same side."""
    sides = holders.tables.astype(np.int64) * 2 + holders.released
    _, firsts, inverse = np.unique(sides, return_index=True, return_inverse=True)
    found: NDArray[np.int64] = firsts[inverse]
    return found


def _manifest_keys(named: Named) -> tuple[pa.Array, NDArray[np.int8], NDArray[np.int32], Sizes]:
    """The manifests themselves, once a table and side, with those beside them that are not opened."""
    rows = named.by_holder.select(["path", c.HOME, "soft", "length"])
    rows = rows.append_column(c.TABLE, pa.array(_alike(named.holders)[named.by_holder[c.TABLE].to_numpy()], pa.int32()))
    sums = [("soft", "min"), ("length", "min"), ("length", "max")]
    pairs = rows.group_by([c.TABLE, "path", c.HOME]).aggregate(sums)
    keys = pairs["path"].combine_chunks()
    if pairs[c.HOME].null_count < pairs.num_rows:
        homes = pairs[c.HOME].to_pylist()
        keys = pa.array(
            [match_key(path, home) for path, home in zip(keys.to_pylist(), homes, strict=True)], pa.string()
        )
    soft = pairs["soft_min"].to_numpy(zero_copy_only=False).astype(np.int8) * np.int8(SOFT)
    least, most = (pc.fill_null(pairs[name], UNSIZED).to_numpy() for name in ("length_min", "length_max"))
    sizes = np.where((least == most) & (least < UNSIZED), least, UNSIZED).astype(np.uint32)
    return keys, soft + np.int8(KIND_CODES[Kind.MANIFEST]), pairs[c.TABLE].to_numpy(), sizes


def _named_keys(holders: Holders) -> tuple[pa.Array, NDArray[np.int8], NDArray[np.int32], Sizes]:
    named = holders.to_read.named
    kinds = named[c.KIND].to_numpy().astype(np.int8)
    return named[c.KEY].combine_chunks(), kinds, named[c.TABLE].to_numpy(), np.full(len(kinds), UNSIZED, np.uint32)


def look_up_and_judge(
    reader: Callable[[Batches], Batches], live: Live, task: JudgeTask, *, bare: bool = False
) -> Callable[[Batches], Batches]:
    """Candidates in, whatever `reader` makes LISTED rows of; one row of ANSWER out. `bare`: it makes a bare listing."""

    def run(batches: Batches) -> Batches:
        listed = (batch for batch in reader(batches) if batch.num_rows)
        yield from judge_and_write(task)(joined(batch, live, task.homes, bare=bare) for batch in listed)

    return run


def joined(listed: pa.RecordBatch, live: Live, homes: Mapping[int, str], *, bare: bool = False) -> pa.RecordBatch:
    """LISTED in, JOINED out: what a join with the needed files would give, needed rows without their names.

    Of a `bare` listing the disk is asked only for files that nobody needs, or whose size no metadata records.
    """
    hashes = key_hashes(match_keys(listed[c.KEY], listed[c.ROOT], homes))
    addresses = key_hashes(listed[c.KEY]) if homes else hashes
    at, found = _places(live.hashes, hashes)
    if homes:
        # Whoever knows files by address may need one among those that are compared by name: an Iceberg table to which
        # files of a Paimon table were added.
        by_address, also = _places(live.hashes, addresses)
        at, found = np.where(found, at, by_address), found | also
    if bare:
        recorded = live.sizes[at] if len(live.hashes) else np.full(len(found), UNSIZED)
        listed, there = with_details(listed, found & (recorded != UNSIZED), recorded)
        if not there.all():
            hashes, addresses, at, found = hashes[there], addresses[there], at[there], found[there]
    missed = pa.array(~found)
    # A live row is only counted, so its name does not travel; a link's does: where it leads has to be looked at.
    told = pc.or_(missed, pc.fill_null(pc.equal(listed[c.FLAG], SYMLINK), False))
    nothing = pa.scalar(None, pa.int32())
    columns = {name: listed[name] for name in c.LISTED.names}
    marks = np.where(found, c.MARK_LIVE, 0)
    for known, names, mark in ((live.released, hashes, c.MARK_RELEASED), (live.pending, addresses, c.MARK_PENDING)):
        if len(known):
            marks |= np.where(_places(known, names)[1], mark, 0)
    if homes and len(live.released):
        marks |= np.where(_places(live.released, addresses)[1], c.MARK_RELEASED, 0)
    if len(live.seen):
        # By the whole name: a sighting that another file's hash lends would let an orphan go too early.
        marks |= np.where(pc.is_in(listed[c.KEY], live.seen).to_numpy(zero_copy_only=False), c.MARK_SEEN, 0)
    for name in (c.KEY, c.ETAG):
        columns[name] = pc.if_else(told, columns[name], pa.scalar(None, pa.string()))
    if len(live.hashes):
        columns[c.TABLE] = pc.if_else(missed, nothing, pa.array(live.tables[at]))
        columns[c.KIND] = pc.if_else(missed, nothing, pa.array(live.kinds[at].astype(np.int32)))
    else:
        columns[c.TABLE] = columns[c.KIND] = pa.nulls(listed.num_rows, pa.int32())
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
