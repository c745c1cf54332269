"""Proven manifests, remembered across runs and jobs: a manifest never changes, so a quiet fleet is not read twice.

The task that proved manifests whole leaves two files. ENTRIES has one row a manifest, packed: 64-bit hashes of the names,
enough to compare. KEYS has one row an entry, with the names themselves, for lakes that are compared by a join. Both are
known to the ledger by size and digest; a file that is not exactly what was written is not used, and its manifests are
read from the table again.
"""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lakewarden.model.errors import LakewardenError
from lakewarden.model.kept_file import KeptFile
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.hashing import Hashes, repeated_hashes
from lakewarden.pipeline.read.manifests import ReadTask, read_entries
from lakewarden.pipeline.read.names import local_directories
from lakewarden.storage.copying import sizes_at
from lakewarden.storage.stores import Stores

ENTRIES, KEYS, LISTS = "entries", "keys", "lists"

Batches = Iterable[pa.RecordBatch]

# One row per manifest. `prefix` is what all the names begin with, "" if nothing is common; `hashes`, `added` and `kinds`
# have one member an entry. `directories` are those of local files, as the manifest names them: where a link leads may
# change from one run to the next.
ENTRY_ROWS = pa.schema(
    [
        ("path", pa.string()),
        ("length", pa.int64()),
        (c.HOME, pa.string()),
        ("prefix", pa.string()),
        ("hashes", pa.binary()),
        ("added", pa.binary()),
        ("kinds", pa.binary()),
        ("directories", pa.list_(pa.string())),
    ]
)
# One row per entry. `kept` is the file's own id: a manifest that two runs read at once is in two files, and is taken from
# one of them.
KEY_ROWS = pa.schema(
    [
        ("kept", pa.string()),
        ("path", pa.string()),
        (c.KEY, pa.string()),
        (c.KIND, pa.int32()),
        ("added", pa.bool_()),
    ]
)


# One row per file of the cache.
KEPT_FILES = pa.schema(
    [("kind", pa.string()), ("uri", pa.string()), ("sha256", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())]
)


class CacheChangedError(Exception):
    """A file of the cache changed between two looks at it: another plan let it go, or somebody harmed it."""


class ManifestKey(NamedTuple):
    """What a manifest's rows depend on: its address, its proven length, and what its bare names are prefixed with."""

    path: str
    length: int | None
    home: str | None


@dataclass(frozen=True, slots=True)
class Entries:
    """What one manifest names: hashes, whether each is added, kinds; and what all the names begin with.

    The `names` themselves only where the beginning does not tell what has to be known of them. `directories` are those
    of the local files among them.
    """

    hashes: Hashes
    added: NDArray[np.bool_]
    kinds: NDArray[np.int8]
    prefix: str
    names: pa.Array | None = None
    directories: Sequence[str] = ()

    @staticmethod
    def of(row: Mapping[str, Any]) -> Entries:
        """From a row of ENTRY_ROWS, with the names beside it if there are any."""
        names = row.get("names")
        return Entries(
            np.frombuffer(row["hashes"], np.uint64),
            np.frombuffer(row["added"], np.bool_),
            np.frombuffer(row["kinds"], np.int8),
            row["prefix"],
            None if names is None else pa.array(names, pa.string()),
            row["directories"],
        )


@dataclass(frozen=True)
class CacheWriter:
    """Where a task leaves what it proved."""

    stores: Stores
    location: str

    def write(self, kind: str, rows: pa.Table, id: str | None = None) -> KeptFile:
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd", compression_level=1, write_page_checksum=True)
        data = sink.getvalue()
        uri = f"{self.location}{kind}-{id or uuid.uuid4().hex}.parquet"
        self.stores.put(uri, data)
        return KeptFile(kind, uri, hashlib.sha256(data).hexdigest(), rows.num_rows, len(data))


@dataclass(frozen=True)
class CacheFiles:
    """The files of the cache that the ledger knows, newest first, and who writes new ones."""

    writer: CacheWriter
    known: Sequence[KeptFile] = ()

    @property
    def stores(self) -> Stores:
        return self.writer.stores

    def of(self, kind: str) -> list[KeptFile]:
        return [file for file in self.known if file.kind == kind]

    def plus(self, files: Sequence[KeptFile]) -> CacheFiles:
        """With files that were written since."""
        return CacheFiles(self.writer, [*files, *self.known])


def pack(
    read: ReadTask, writer: CacheWriter, schema: pa.Schema, with_names: Callable[[str], bool] | None
) -> Callable[[Batches], Batches]:
    """MANIFESTS in (a table's number is the manifest's); out rows of what was proven, of notes, of files in the cache.

    `with_names` says of what names begin with whether they have to be told; without it, nothing but the number of a
    proven manifest is.
    """

    def run(batches: Batches) -> Batches:
        keys: dict[int, ManifestKey] = {}

        def noting(batches: Batches) -> Batches:
            for batch in batches:
                columns = (batch[name].to_pylist() for name in (c.TABLE, "path", "length", c.HOME))
                keys.update({number: ManifestKey(*key) for number, *key in zip(*columns, strict=True)})
                yield batch

        for numbers, marks, notes in read_entries(read)(noting(batches)):
            id = uuid.uuid4().hex
            entries, names = packed_rows([keys[number] for number in numbers], numbers, marks, id)
            rows: list[dict[str, Any]] = [{"note": note} for note in notes]
            if entries.num_rows:
                files = [writer.write(ENTRIES, entries, id), writer.write(KEYS, names, id)]
                rows += [{"kept": json.dumps(asdict(file))} for file in files]
            end = 0
            for number, row in zip(numbers, entries.to_pylist(), strict=True):
                told = {"number": number, "id": id, "directories": row["directories"]}
                start, end = end, end + len(row["added"])
                if with_names is not None:
                    spread = row["hashes"] and with_names(row["prefix"])
                    mine = names[c.KEY].slice(start, end - start).to_pylist() if spread else None
                    told |= {"names": mine, **{name: row[name] for name in ("prefix", "hashes", "added", "kinds")}}
                rows.append(told)
            yield from pa.Table.from_pylist(rows, schema=schema).to_batches()

    return run


def packed_rows(
    manifests: Sequence[ManifestKey], numbers: Sequence[int], marks: pa.Table, id: str
) -> tuple[pa.Table, pa.Table]:
    """ENTRY_ROWS and KEY_ROWS of proven manifests, whose MARKS have their numbers as `table_id`."""
    owners = pc.index_in(marks[c.TABLE], pa.array(numbers, pa.int32())).to_numpy()
    if (owners[1:] < owners[:-1]).any():
        order = np.argsort(owners, kind="stable")
        marks, owners = marks.take(pa.array(order)), owners[order]
    starts = np.searchsorted(owners, np.arange(len(manifests) + 1))
    hashes = repeated_hashes(marks[c.KEY])
    added = (marks[c.MARK].to_numpy() & c.MARK_DELETED) == 0
    kinds = marks[c.KIND].to_numpy().astype(np.int8)
    names = marks[c.KEY].combine_chunks()
    rows = [
        {
            "path": key.path,
            "length": key.length,
            c.HOME: key.home,
            "prefix": _common(names.slice(start, end - start)),
            "hashes": hashes[start:end].tobytes(),
            "added": added[start:end].tobytes(),
            "kinds": kinds[start:end].tobytes(),
            "directories": local_directories(names.slice(start, end - start)),
        }
        for key, start, end in zip(manifests, starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    keys = pa.table(
        [
            pa.repeat(id, len(names)),
            pa.array([key.path for key in manifests], pa.string()).take(pa.array(owners)),
            names,
            pa.array(kinds.astype(np.int32)),
            pa.array(added),
        ],
        schema=KEY_ROWS,
    )
    return pa.Table.from_pylist(rows, schema=ENTRY_ROWS), keys


def _common(names: pa.Array) -> str:
    """What all names begin with: the smallest and the largest of them agree on nothing more than all do."""
    if not len(names):
        return ""
    ends = pc.min_max(names).as_py()
    same = takewhile(lambda pair: pair[0] == pair[1], zip(ends["min"], ends["max"], strict=False))
    return "".join(character for character, _ in same)


def read_kept(stores: Stores, file: KeptFile, columns: Sequence[str] | None = None) -> pa.Table | None:
    """The rows of a file that is exactly the one that was written; None for any other."""
    try:
        data = stores.get(file.uri)
    except (OSError, LakewardenError):
        return None
    if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        return None
    return pq.read_table(pa.BufferReader(data), columns=columns, use_threads=False)


def known_entries(
    stores: Stores, files: Iterable[KeptFile], wanted: Iterable[ManifestKey]
) -> dict[ManifestKey, Entries]:
    """What the cache knows of these manifests. One of no proven length is never known: another may have its name."""
    asked = {key for key in wanted if key.length is not None}
    found: dict[ManifestKey, Entries] = {}
    for file in files:
        if len(found) == len(asked):
            break
        if (rows := _read_entries(stores, file)) is not None:
            places = {key: place for place, key in enumerate(manifest_keys(rows)) if key in asked and key not in found}
            mine = rows.take(pa.array(list(places.values()), pa.int64())).to_pylist()
            found |= {key: Entries.of(row) for key, row in zip(places, mine, strict=True)}
    present = still_there(stores, found)
    return {key: entries for key, entries in found.items() if key in present}


def _read_entries(stores: Stores, file: KeptFile) -> pa.Table | None:
    """ENTRY_ROWS of a file; None for one that was harmed, or written by a version that kept less."""
    rows = read_kept(stores, file)
    return rows if rows is not None and rows.column_names == ENTRY_ROWS.names else None


class KnownNames(NamedTuple):
    """The file of KEY_ROWS that has a manifest's names, and the directories of the local files among them."""

    file: KeptFile
    directories: Sequence[str]


def known_files(
    cache: CacheFiles, wanted: Iterable[ManifestKey], *, whole: bool = False
) -> dict[ManifestKey, KnownNames]:
    """By manifest, where its names are, if that file is as long as it was when they were proven.

    `whole`: and has the same bytes, which only whoever takes few names has the time to see.
    """
    asked = {key for key in wanted if key.length is not None}
    names = {id_of(file): file for file in cache.of(KEYS)}
    found: dict[ManifestKey, KnownNames] = {}
    for file in cache.of(ENTRIES):
        beside = names.get(id_of(file))
        if beside is None or not _as_long(cache.stores, beside):
            continue
        if (rows := _read_entries(cache.stores, file)) is not None:
            pairs = zip(manifest_keys(rows), rows["directories"].to_pylist(), strict=True)
            mine = {key: KnownNames(beside, directories) for key, directories in pairs if key in asked}
            if mine and (not whole or read_kept(cache.stores, beside) is not None):
                found |= mine
    present = still_there(cache.stores, found)
    return {key: known for key, known in found.items() if key in present}


def still_there(stores: Stores, keys: Iterable[ManifestKey]) -> frozenset[ManifestKey]:
    """Those of these manifests that are where they were, as long as they were.

    The cache knows what a manifest said. That the manifest is lost or cut by now is for its table to be refused for, so
    such a manifest is read, and not found whole.
    """
    asked = list(keys)
    try:
        sizes = sizes_at(stores, [key.path for key in asked])
    except LakewardenError:
        return frozenset()  # every one of them is opened, and what cannot be refuses its own table
    return frozenset(key for key, size in zip(asked, sizes, strict=True) if size == key.length)


def _as_long(stores: Stores, file: KeptFile) -> bool:
    try:
        there = stores.head(file.uri)
    except (OSError, LakewardenError):
        return False
    return there is not None and there.size == file.bytes


def kept_table(files: Iterable[KeptFile]) -> pa.Table:
    """KEPT_FILES, as `read_whole` takes them."""
    return pa.Table.from_pylist([asdict(file) for file in files], schema=KEPT_FILES)


def read_whole(stores: Stores) -> Callable[[Batches], Batches]:
    """Rows of KeptFile in, KEY_ROWS out. Raises CacheChangedError for a file that is not the one that was written: rows
    that are simply not there would make the files they name look like orphans."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                rows = read_kept(stores, KeptFile(**row))
                if rows is None:
                    raise CacheChangedError(f"{row['uri']} is not the file that was written")
                yield from rows.cast(KEY_ROWS).to_batches()

    return run


def manifest_keys(rows: pa.Table) -> list[ManifestKey]:
    """Of rows of MANIFESTS or ENTRY_ROWS."""
    columns = (rows[name].to_pylist() for name in ("path", "length", c.HOME))
    return [ManifestKey(*key) for key in zip(*columns, strict=True)]


def id_of(file: KeptFile) -> str:
    """What the two files of one task have in common."""
    return file.uri.rpartition("-")[2].removesuffix(".parquet")
