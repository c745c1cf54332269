"""What holders need, read once: the manifests that their lists name, and the entries of each manifest.

Both ways of comparing begin here. Manifests that the cache knows are not read again; the others are read by tasks, which
leave what they proved in the cache. Whatever cannot be proven whole refuses the tables of its holders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.errors import Refusal
from lakewarden.model.kept_file import KeptFile
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.pipeline.read.cache import KEYS, CacheFiles, ManifestKey, id_of, known_files, manifest_keys
from lakewarden.pipeline.read.entries import READ, Entries, known_entries, pack
from lakewarden.pipeline.read.list_cache import remember_lists, remembered_lists
from lakewarden.pipeline.read.manifests import ReadTask, once, read_lists
from lakewarden.pipeline.read.names import local_directories
from lakewarden.pipeline.read.notes import NOTE, note_refusal
from lakewarden.pipeline.read.places import NO_ROOT, Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Up to so many manifests the driver is done before a Spark stage has begun.
FEW_MANIFESTS = 64
# More bytes than these are worth both cores.
FEW_BYTES = 2 << 20

Spark = Callable[[], "SparkSession"]


@dataclass(frozen=True)
class Named:
    """The manifests of all holders: MANIFESTS by holder, with those that are opened also once each.

    A manifest is what one ManifestKey says: of one address with two lengths, each is proven by itself, or is not. `numbers`
    has the place in `once` of each row of `opened`. `refusals` are by table.
    """

    holders: Holders
    by_holder: pa.Table
    opened: pa.Table
    numbers: NDArray[np.int64]
    once: pa.Table
    refusals: Mapping[int, Refusal]
    kept: tuple[KeptFile, ...] = ()

    @cached_property
    def keys(self) -> list[ManifestKey]:
        """Of each manifest of `once`."""
        return manifest_keys(self.once)

    @property
    def directories(self) -> set[str]:
        """The directories of local manifests, and of local files that metadata itself names."""
        columns = (self.by_holder["path"], self.holders.to_read.named[c.KEY])
        return {directory for column in columns for directory in local_directories(column.combine_chunks())}

    @property
    def entries(self) -> int:
        """How many entries the manifests have together, as far as their lists say."""
        return int(pc.sum(self.once["rows"]).as_py() or 0)

    def refused(self, notes: Iterable[str]) -> dict[int, Refusal]:
        """Refusals by table, of notes by manifest: every table that has the manifest, because clones share them."""
        holders = self.opened[c.TABLE].to_numpy()
        found: dict[int, Refusal] = {}
        for note in notes:
            mine = holders[self.numbers == json.loads(note.removeprefix(NOTE))["table"]]
            for table in np.unique(self.holders.tables[mine]).tolist():
                found.setdefault(table, note_refusal(note))
        return found


def name_manifests(spark: Spark, holders: Holders, read: ReadTask, cache: CacheFiles) -> Named:
    """Read the lists of the holders."""
    lists = holders.to_read.lists
    # A soft list may be gone, and may be back the next time: what such a list names is never remembered.
    certain = pc.invert(lists["soft"])
    known = remembered_lists(lists.filter(certain), cache)
    holding = pc.unique(known[c.TABLE]).to_pylist()
    unread = lists.filter(pc.invert(pc.and_(certain, pc.is_in(lists[c.TABLE], pa.array(holding, pa.int32())))))
    if unread.num_rows <= read.few_lists:
        fresh = pa.Table.from_batches(read_lists(read)(iter(unread.to_batches())), schema=c.MANIFESTS)
    else:
        from lakewarden.pipeline.read.frames import LISTS_A_TASK, in_tasks, spread

        lists_read = spread(spark(), unread, unread.num_rows // LISTS_A_TASK)
        fresh = in_tasks(lists_read, read_lists(read), c.MANIFESTS).toArrow().cast(c.MANIFESTS)
    noted = pc.starts_with(fresh["path"], NOTE)
    notes = fresh.filter(noted)["path"].to_pylist()
    damaged = {int(json.loads(note.removeprefix(NOTE))["table"]): note_refusal(note) for note in reversed(notes)}
    fresh = fresh.filter(pc.invert(noted))
    kept = remember_lists(
        unread.filter(pc.invert(unread["soft"])), fresh.filter(pc.invert(fresh["soft"])), {*damaged, *holding}, cache
    )
    found = once(pa.concat_tables([fresh, holders.to_read.manifests, known]))
    # A manifest that any holder must have is certain, whatever another holder says of it.
    opened = found.filter(pc.not_equal(found["content"], c.CONTENT_SIDECAR)).sort_by("soft")
    numbers, firsts = each_once(opened)
    refusals = {int(holders.tables[holder]): why for holder, why in damaged.items()}
    return Named(holders, found, opened, numbers, opened.take(pa.array(firsts)), refusals, kept)


def each_once(manifests: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row's number among the different manifests (by ManifestKey), and each one's first row."""
    codes = np.zeros(manifests.num_rows, np.int64)
    for name in ManifestKey._fields:
        column = pc.dictionary_encode(manifests[name].combine_chunks(), null_encoding="encode")
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        # Of the codes so far, and of this column's: each pair gets a code of its own.
        _, codes = np.unique(codes * (len(column.dictionary) + 1) + column.indices.to_numpy(), return_inverse=True)
    _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
    return numbers, firsts


@dataclass(frozen=True)
class Contents:
    """What manifests of `Named.once` name: `numbers` has the places of those that are known, one after the other as in
    `entries`, and `roots` the root that each entry lies in; the directories of all local files that they name; refusals by
    table; files left in the cache."""

    numbers: NDArray[np.int64]
    entries: Entries
    roots: NDArray[np.int32]
    refusals: Mapping[int, Refusal]
    kept: tuple[KeptFile, ...]
    directories: frozenset[str] = frozenset()


def open_manifests(spark: Spark, named: Named, read: ReadTask, cache: CacheFiles, places: Places) -> Contents:
    """Every manifest, from the cache or else from its file, with the root that each of its entries lies in."""
    known = known_entries(cache, named.once)
    # Of entries in several roots the cache, which knows only what their names have in common, cannot tell each one's.
    pairs = zip(known["prefix"].to_pylist(), pc.binary_length(known["added"]).to_pylist(), strict=True)
    known = known.filter(pa.array([not (count and _spread(places, prefix)) for prefix, count in pairs], pa.bool_()))
    told = _read(spark, _unread(named, known["number"].to_numpy()), read, cache, places)
    rows = pa.concat_tables([known, told.rows])
    numbers = rows["number"].to_numpy().astype(np.int64)
    entries = Entries.of(rows)
    roots = _roots(rows, entries, places)
    return Contents(numbers, entries, roots, named.refused(told.notes), told.kept, _directories(rows))


def _directories(rows: pa.Table) -> frozenset[str]:
    return frozenset(pc.unique(pc.list_flatten(rows["directories"])).to_pylist())


def _roots(rows: pa.Table, entries: Entries, places: Places) -> NDArray[np.int32]:
    """The root of each entry of these rows of READ."""
    found: list[int] = []
    for prefix, count in zip(rows["prefix"].to_pylist(), entries.counts.tolist(), strict=True):
        root = places.root_of_all(prefix) if count else NO_ROOT
        found.append(NO_ROOT if root is None else root)
    each = np.repeat(np.array(found, np.int32), entries.counts)
    starts = entries.starts
    # Entries that may lie in several roots come with their names.
    for at in np.flatnonzero(pc.is_valid(rows["names"]).to_numpy()).tolist():
        each[starts[at] : starts[at + 1]] = places.roots_of(pa.array(rows["names"][at].as_py(), pa.string()))
    return each


@dataclass(frozen=True)
class NamesKept:
    """Where the names of each manifest of `Named.once` are: files of KEY_ROWS, and each manifest's file by id; and the
    directories of all local files that manifests name."""

    ids: Mapping[int, str]
    files: tuple[KeptFile, ...]
    refusals: Mapping[int, Refusal]
    kept: tuple[KeptFile, ...]
    directories: frozenset[str] = frozenset()


def keep_names(spark: Spark, named: Named, read: ReadTask, cache: CacheFiles, *, few: int | None = None) -> NamesKept:
    """Every manifest's names in the cache: nothing of them comes to the driver.

    `few`: up to how many unknown manifests are read without Spark, for whoever has no session and wants no more names
    than fit here. Without it, FEW_MANIFESTS.
    """
    known = known_files(cache, named.keys, whole=few is not None)
    ids = {place: id_of(known[key].file) for place, key in enumerate(named.keys) if key in known}
    told = _read(spark, _unread(named, np.array([*ids], np.int64)), read, cache, None, few)
    directories = _directories(told.rows).union(*(found.directories for found in known.values()))
    ids |= dict(zip(told.rows["number"].to_pylist(), told.rows["id"].to_pylist(), strict=True))
    files = {file.uri: file for file in (*(found.file for found in known.values()), *told.kept) if file.kind == KEYS}
    return NamesKept(ids, tuple(files.values()), named.refused(told.notes), told.kept, directories)


def _unread(named: Named, known: NDArray[np.int64]) -> pa.Table:
    """MANIFESTS to read, each under its place as its number."""
    places = np.setdiff1d(np.arange(named.once.num_rows), known)
    rows = named.once.take(pa.array(places, pa.int64()))
    rows = rows.set_column(rows.schema.get_field_index(c.TABLE), c.TABLE, pa.array(places, pa.int32()))
    return rows.select(c.MANIFESTS.names).cast(c.MANIFESTS)


def _spread(places: Places, beginning: str) -> bool:
    """Whether names with this beginning may lie in several roots, or in one and outside."""
    return places.root_of_all(beginning) is None


@dataclass(frozen=True)
class _Told:
    """What reading brought: READ of proven manifests, notes, files left in the cache."""

    rows: pa.Table
    notes: list[str]
    kept: tuple[KeptFile, ...]


def _read(
    spark: Spark,
    rows: pa.Table,
    read: ReadTask,
    cache: CacheFiles,
    places: Places | None,
    few: int | None = None,
) -> _Told:
    """These manifests, read; without places, only where their names are."""
    step = pack(read, cache.writer, None if places is None else partial(_spread, places))
    small = (pc.sum(rows["length"]).as_py() or 0) <= FEW_BYTES
    if rows.num_rows <= few if few is not None else rows.num_rows <= FEW_MANIFESTS and small:
        found = pa.Table.from_batches(step(iter(rows.to_batches())), schema=READ)
    else:
        from lakewarden.pipeline.read.frames import dealt, in_tasks

        found = in_tasks(dealt(spark(), rows), step, READ).toArrow().cast(READ)
    kept = pc.drop_null(found["kept"]).to_pylist()
    proven = found.filter(pc.is_valid(found["number"]))
    return _Told(proven, pc.drop_null(found["note"]).to_pylist(), tuple(KeptFile(**json.loads(text)) for text in kept))
