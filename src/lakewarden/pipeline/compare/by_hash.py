"""The comparison by hashes: what holders need, as sorted 64-bit hashes that every listing task carries along.

No row of a needed file crosses to the JVM and nothing is shuffled, which halves the time of a comparison. Two files with
one hash can only make a file that may go look needed, never the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.roots import match_key
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import Holders, by_holder, kept
from lakewarden.pipeline.compare.needs import Contents, Named
from lakewarden.pipeline.compare.plan_files import JudgeTask, judge_and_write
from lakewarden.pipeline.read.cache import Entries
from lakewarden.pipeline.read.hashing import Hashes, key_hashes
from lakewarden.pipeline.read.names import KIND_CODES, SOFT, match_keys
from lakewarden.pipeline.read.places import BY_NAME_ROOT, Places
from lakewarden.storage.store import SYMLINK

Batches = Iterable[pa.RecordBatch]

_NO_HASHES: Hashes = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Live:
    """Every needed file: its hash (sorted, each once), a table that needs it, its kind, and the root that it lies in.

    `released` has the (sorted) hashes of files that something needed which is about to go; `pending` those of the whole
    addresses of files that an earlier expiry released; `seen` the addresses that enough earlier plans called orphans.
    """

    hashes: Hashes
    tables: NDArray[np.int32]
    kinds: NDArray[np.int8]
    roots: NDArray[np.int32]
    released: Hashes = field(default_factory=lambda: _NO_HASHES)
    pending: Hashes = field(default_factory=lambda: _NO_HASHES)
    seen: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))

    def under(self, roots: Iterable[int]) -> Live:
        """Only what lies under these roots, or is known by name: the rest is never listed."""
        kept = np.isin(self.roots, [*roots, BY_NAME_ROOT])
        return replace(
            self, hashes=self.hashes[kept], tables=self.tables[kept], kinds=self.kinds[kept], roots=self.roots[kept]
        )

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
    """Adds up what holders need: hashes with their table, kind and root; of those that are about to go, hashes alone."""

    def __init__(self, holders: Holders) -> None:
        self._holders = holders
        self._parts: list[tuple[Hashes, NDArray[np.int32], NDArray[np.int8], NDArray[np.int32]]] = []
        self._gone: list[Hashes] = []
        self.touches: set[tuple[int, int]] = set()

    def add(self, holder: int, hashes: Hashes, kinds: NDArray[np.int8], roots: NDArray[np.int32]) -> None:
        if self._holders.released[holder]:
            self._gone.append(hashes)
            return
        table = int(self._holders.tables[holder])
        self._parts.append((hashes, np.full(len(hashes), table, np.int32), kinds, roots))
        self.touches.update((table, root) for root in np.unique(roots).tolist() if root >= 0)

    def live(self) -> Live:
        """A file that two tables need counts for the first, and for one that must have it."""
        empty = (_NO_HASHES, np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int32))
        hashes, tables, kinds, roots = (np.concatenate(several) for several in zip(empty, *self._parts, strict=True))
        order = np.lexsort((tables, kinds >= SOFT, hashes))
        hashes = hashes[order]
        first = np.concatenate([[True], hashes[1:] != hashes[:-1]]) if len(hashes) else np.empty(0, bool)
        order = order[first]
        released = np.unique(np.concatenate([_NO_HASHES, *self._gone]))
        return Live(hashes[first], tables[order], kinds[order], roots[order], released)


def sum_up(named: Named, contents: Contents, places: Places) -> Summed:
    """What each holder needs, added up over all of them."""
    holders, total = named.holders, _Sum(named.holders)
    same = _alike(holders)
    owners = holders.firsts[named.opened[c.TABLE].to_numpy()]
    soft = named.opened["soft"].to_numpy(zero_copy_only=False).astype(np.int8)
    order = np.lexsort((soft, named.numbers, owners))
    pairs = np.stack([owners[order], named.numbers[order]])
    first = np.concatenate([[True], (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)]) if len(order) else order.astype(bool)
    rows = order[first]
    parts = {number: _part(entries, contents.roots[number]) for number, entries in contents.entries.items()}
    for holder, mine in by_holder(owners[rows]):
        chosen = zip(named.numbers[rows][mine].tolist(), soft[rows][mine].tolist(), strict=True)
        several = [(parts[number], softness) for number, softness in chosen if number in parts]
        total.add(holder, *_needed(str(holders.holds[holder]), several))
    for keys, kinds, of in (_manifest_keys(named), _named_keys(holders)):
        hashes = key_hashes(keys) if len(keys) else _NO_HASHES
        lie = places.roots_of(keys)
        for holder, mine in by_holder(same[of]):
            total.add(holder, hashes[mine], kinds[mine], lie[mine])
    return Summed(total.live(), frozenset(total.touches))


def _alike(holders: Holders) -> NDArray[np.int64]:
    """For each holder the first one of the same table on the same side."""
    sides = holders.tables.astype(np.int64) * 2 + holders.released
    _, firsts, inverse = np.unique(sides, return_index=True, return_inverse=True)
    found: NDArray[np.int64] = firsts[inverse]
    return found


Part = tuple[Hashes, NDArray[np.int8], NDArray[np.int32], NDArray[np.bool_]]


def _part(entries: Entries, root: int | NDArray[np.int32]) -> Part:
    """What one manifest names: hashes, kinds, roots, whether each is added."""
    roots = root if isinstance(root, np.ndarray) else np.full(len(entries.hashes), root, np.int32)
    return entries.hashes, entries.kinds, roots, entries.added


def _needed(hold: str, several: Sequence[tuple[Part, int]]) -> tuple[Hashes, NDArray[np.int8], NDArray[np.int32]]:
    """The files that a holder needs, of those its manifests name; each manifest with whether it is soft."""
    hashes = np.concatenate([_NO_HASHES, *(part[0] for part, _ in several)])
    kinds = np.concatenate(
        [np.empty(0, np.int8), *(part[1] | np.int8(SOFT) if soft else part[1] for part, soft in several)]
    )
    roots = np.concatenate([np.empty(0, np.int32), *(part[2] for part, _ in several)])
    added = np.concatenate([np.empty(0, bool), *(part[3] for part, _ in several)])
    # The least kind of a file is certain where any of its manifests is.
    places = kept(hold, hashes, added, kinds)
    return hashes[places], kinds[places].astype(np.int8), roots[places]


def _manifest_keys(named: Named) -> tuple[pa.Array, NDArray[np.int8], NDArray[np.int32]]:
    """The manifests themselves, once a holder, with those beside them that are not opened."""
    rows = named.by_holder.select([c.TABLE, "path", c.HOME, "soft"])
    pairs = rows.group_by([c.TABLE, "path", c.HOME]).aggregate([("soft", "min")])
    homes = pairs[c.HOME].to_pylist()
    keys = [match_key(path, home) for path, home in zip(pairs["path"].to_pylist(), homes, strict=True)]
    soft = pairs["soft_min"].to_numpy(zero_copy_only=False).astype(np.int8) * np.int8(SOFT)
    return pa.array(keys, pa.string()), soft + np.int8(KIND_CODES[Kind.MANIFEST]), pairs[c.TABLE].to_numpy()


def _named_keys(holders: Holders) -> tuple[pa.Array, NDArray[np.int8], NDArray[np.int32]]:
    named = holders.to_read.named
    return named[c.KEY].combine_chunks(), named[c.KIND].to_numpy().astype(np.int8), named[c.TABLE].to_numpy()


def look_up_and_judge(
    reader: Callable[[Batches], Batches], live: Live, task: JudgeTask
) -> Callable[[Batches], Batches]:
    """Candidates in, whatever `reader` makes LISTED rows of; one row of ANSWER out."""

    def run(batches: Batches) -> Batches:
        yield from judge_and_write(task)(joined(batch, live, task.homes) for batch in reader(batches) if batch.num_rows)

    return run


def joined(listed: pa.RecordBatch, live: Live, homes: Mapping[int, str]) -> pa.RecordBatch:
    """LISTED in, JOINED out: what a join with the needed files would give, needed rows without their names."""
    hashes = key_hashes(match_keys(listed[c.KEY], listed[c.ROOT], homes))
    addresses = key_hashes(listed[c.KEY]) if homes else hashes
    at, found = _places(live.hashes, hashes)
    _, released = _places(live.released, hashes)
    if homes:
        # Whoever knows files by address may need one among those that are compared by name: an Iceberg table to which
        # files of a Paimon table were added.
        by_address, also = _places(live.hashes, addresses)
        at, found = np.where(found, at, by_address), found | also
        released |= _places(live.released, addresses)[1]
    _, pending = _places(live.pending, addresses)
    missed = pa.array(~found)
    # A live row is only counted, so its name does not travel; a link's does: where it leads has to be looked at.
    told = pc.or_(missed, pc.fill_null(pc.equal(listed[c.FLAG], SYMLINK), False))
    nothing = pa.scalar(None, pa.int32())
    columns = {name: listed[name] for name in c.LISTED.names}
    marks = np.where(found, c.MARK_LIVE, 0) | np.where(released, c.MARK_RELEASED, 0)
    marks |= np.where(pending, c.MARK_PENDING, 0)
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
