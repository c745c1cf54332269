"""Which manifests a table's lists name, remembered: a table that did not move has no list read again.

Only for holders of several lists, as orphan cleanup has one for each table; the lists of single snapshots name the same
manifests again and again, and remembering each would outgrow the lists themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import LakewardenError
from lakewarden.model.kept_file import KeptFile
from lakewarden.model.uri import canonical
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.cache import LISTS, CacheFiles, read_kept
from lakewarden.pipeline.read.entries import ranges
from lakewarden.pipeline.read.lengths import lengths_at
from lakewarden.pipeline.read.manifests import once

SEVERAL = 2
# MANIFESTS of a holder, which is known by everything that decides what its lists name; `bytes` is how long all its lists
# are that must be there.
LIST_ROWS = pa.schema(
    [("digest", pa.string()), ("bytes", pa.int64()), *(field for field in c.MANIFESTS if field.name != c.TABLE)]
)


def remembered_lists(lists: pa.Table, cache: CacheFiles) -> pa.Table:
    """LISTS in; the MANIFESTS of those holders whose lists the cache knows."""
    digests = _digests(lists)
    rows = [LIST_ROWS.empty_table()]
    asked = pa.array(sorted(set(digests.values())), pa.string())
    for file in cache.of(LISTS) if digests else ():
        if (kept := read_kept(cache.stores, file)) is not None:
            rows.append(kept.filter(pc.is_in(kept["digest"], asked)))
            cache.used.update([file.uri] if rows[-1].num_rows else ())
    known = pa.concat_tables(rows).combine_chunks().sort_by("digest")
    names, counts = np.unique(known["digest"].to_numpy(), return_counts=True)
    firsts = dict(zip(names.tolist(), (np.cumsum(counts) - counts).tolist(), strict=True))
    times = dict(zip(names.tolist(), counts.tolist(), strict=True))
    lengths = known["bytes"].to_pylist()
    there = _lengths(lists, [holder for holder, digest in digests.items() if digest in firsts], cache)
    holders = [holder for holder, length in there.items() if length == lengths[firsts[digests[holder]]]]
    starts = np.array([firsts[digests[holder]] for holder in holders], np.int64)
    several = np.array([times[digests[holder]] for holder in holders], np.int64)
    found = known.take(pa.array(ranges(starts, several))).drop_columns(["digest", "bytes"])
    numbers = pa.array(np.repeat(np.array(holders, np.int32), several))
    return found.append_column(c.TABLE, numbers).select(c.MANIFESTS.names).cast(c.MANIFESTS)


def remember_lists(
    lists: pa.Table, manifests: pa.Table, damaged: Collection[int], cache: CacheFiles
) -> tuple[KeptFile, ...]:
    """LISTS that were read, and the MANIFESTS in them: kept for the holders none of whose lists is damaged."""
    digests = {holder: digest for holder, digest in _digests(lists).items() if holder not in damaged}
    lengths = _lengths(lists, list(digests), cache)
    digests = {holder: digest for holder, digest in digests.items() if holder in lengths}
    holders = pa.array(sorted(digests), pa.int32())
    rows = once(manifests.filter(pc.is_in(manifests[c.TABLE], holders)))
    if not rows.num_rows:
        return ()
    named = pa.array([digests[holder] for holder in sorted(digests)], pa.string())
    places = pc.index_in(rows[c.TABLE], holders).combine_chunks()
    sums = pa.array([lengths[holder] for holder in sorted(digests)], pa.int64())
    rows = rows.append_column("digest", named.take(places)).append_column("bytes", sums.take(places))
    return (cache.writer.write(LISTS, rows.select(LIST_ROWS.names).cast(LIST_ROWS)),)


def _lengths(lists: pa.Table, holders: Collection[int], cache: CacheFiles) -> dict[int, int]:
    """How long the lists of each holder are together, of those that must be there; holders that lost one are left out.

    A list that is lost or cut by now is for its table to be refused for, so the lists of such a holder are read.
    """
    certain = lists.filter(pc.and_(pc.is_in(lists[c.TABLE], pa.array(holders, pa.int32())), pc.invert(lists["soft"])))
    try:
        sizes = lengths_at(cache.stores, [canonical(uri) for uri in certain["uri"].to_pylist()])
    except LakewardenError:
        return {}
    found = dict.fromkeys(holders, 0)
    for holder, size in zip(certain[c.TABLE].to_pylist(), sizes, strict=True):
        if size is None:
            found.pop(holder, None)
        elif holder in found:
            found[holder] += size
    return found


def _digests(lists: pa.Table) -> dict[int, str]:
    """What the manifests of each holder of several lists depend on. One list that names none is cheap to read again."""
    columns = [_texts(lists[name]) for name in c.LISTS.names if name != c.TABLE]
    told: dict[int, list[str]] = {}
    for holder, text in zip(lists[c.TABLE].to_pylist(), map("\n".join, zip(*columns, strict=True)), strict=True):
        told.setdefault(holder, []).append(text)
    return {holder: _digest(several) for holder, several in told.items() if len(several) >= SEVERAL}


def _texts(column: pa.ChunkedArray) -> list[str]:
    texts: list[str] = pc.fill_null(column.cast(pa.string()), "None").to_pylist()
    return texts


def _digest(lists: list[str]) -> str:
    return hashlib.sha256("\n\n".join(sorted(lists)).encode()).hexdigest()
