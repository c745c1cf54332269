"""Which manifests a table's lists name, remembered: a table that did not move has no list read again.

Only for holders of several lists, as orphan cleanup has one for each table; the lists of single snapshots name the same
manifests again and again, and remembering each would outgrow the lists themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import LakewardenError
from lakewarden.model.kept_file import KeptFile
from lakewarden.model.uri import canonical
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.cache import LISTS, CacheFiles, read_kept
from lakewarden.pipeline.read.manifests import once
from lakewarden.storage.copying import sizes_at

SEVERAL = 2
# MANIFESTS of a holder, which is known by everything that decides what its lists name; `bytes` is how long all its lists
# are that must be there.
LIST_ROWS = pa.schema(
    [("digest", pa.string()), ("bytes", pa.int64()), *(field for field in c.MANIFESTS if field.name != c.TABLE)]
)


def remembered_lists(lists: pa.Table, cache: CacheFiles) -> dict[int, pa.Table]:
    """LISTS in; by holder, the MANIFESTS that the cache knows."""
    digests = _digests(lists)
    if not digests:
        return {}
    asked = pa.array(sorted(set(digests.values())), pa.string())
    rows = [LIST_ROWS.empty_table()]
    for file in cache.of(LISTS):
        if (kept := read_kept(cache.stores, file)) is not None:
            rows.append(kept.filter(pc.is_in(kept["digest"], asked)))
    known = pa.concat_tables(rows).combine_chunks().sort_by("digest")
    names = known["digest"].to_pylist()
    starts = {name: place for place, name in reversed(list(enumerate(names)))}
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    lengths = known["bytes"].to_pylist()
    there = _lengths(lists, [holder for holder, digest in digests.items() if digest in starts], cache)
    found = {}
    for holder, digest in digests.items():
        if digest in starts and there.get(holder) == lengths[starts[digest]]:
            part = known.slice(starts[digest], counts[digest]).drop_columns(["digest", "bytes"])
            numbers = pa.repeat(pa.scalar(holder, pa.int32()), part.num_rows)
            found[holder] = part.append_column(c.TABLE, numbers).select(c.MANIFESTS.names).cast(c.MANIFESTS)
    return found


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
    uris = [canonical(uri) for uri in certain["uri"].to_pylist()]
    try:
        sizes = sizes_at(cache.stores, uris)
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
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in lists.to_pylist():
        rows.setdefault(row[c.TABLE], []).append(row)
    return {holder: _digest(several) for holder, several in rows.items() if len(several) >= SEVERAL}


def _digest(lists: list[dict[str, Any]]) -> str:
    told = sorted("\n".join(str(row[name]) for name in c.LISTS.names if name != c.TABLE) for row in lists)
    return hashlib.sha256("\n\n".join(told).encode()).hexdigest()
