"""Proven manifests, remembered across runs and jobs: a manifest never changes, so a quiet fleet is not read twice.

The task that proved manifests whole leaves two files. ENTRIES has one row a manifest, packed: 64-bit hashes of the names,
enough to compare. KEYS has one row an entry, with the names themselves, for lakes that are compared by a join. Both are
known to the ledger by size and digest; a file that is not exactly what was written is not used, and its manifests are
read from the table again.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lakewarden.model.errors import LakewardenError
from lakewarden.model.kept_file import KeptFile
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.lengths import lengths_at
from lakewarden.storage.stores import Stores

ENTRIES, KEYS, LISTS = "entries", "keys", "lists"

Batches = Iterable[pa.RecordBatch]

PACKED = ("hashes", "added", "kinds", "sizes")
# One row per manifest. `prefix` is what all the names begin with, "" if nothing is common; `hashes`, `added`, `kinds` and
# `sizes` have one member an entry. `directories` are those of local files, as the manifest names them: where a link leads
# may change from one run to the next.
ENTRY_ROWS = pa.schema(
    [
        ("path", pa.string()),
        ("length", pa.int64()),
        (c.HOME, pa.string()),
        ("prefix", pa.string()),
        *((name, pa.binary()) for name in PACKED),
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
    """The files of the cache that the ledger knows, the last used first, and who writes new ones.

    `used` has the addresses of those that something was taken from.
    """

    writer: CacheWriter
    known: Sequence[KeptFile] = ()
    used: set[str] = field(default_factory=set)

    @property
    def stores(self) -> Stores:
        return self.writer.stores

    def of(self, kind: str) -> list[KeptFile]:
        return [file for file in self.known if file.kind == kind]

    def plus(self, files: Sequence[KeptFile]) -> CacheFiles:
        """With files that were written since."""
        return CacheFiles(self.writer, [*files, *self.known], self.used)


def read_kept(stores: Stores, file: KeptFile, columns: Sequence[str] | None = None) -> pa.Table | None:
    """The rows of a file that is exactly the one that was written; None for any other."""
    try:
        data = stores.get(file.uri)
    except (OSError, LakewardenError):
        return None
    if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        return None
    return pq.read_table(pa.BufferReader(data), columns=columns, use_threads=False)


class KnownNames(NamedTuple):
    """The file of KEY_ROWS that has a manifest's names, and the directories of the local files among them."""

    file: KeptFile
    directories: Sequence[str]


def read_entry_rows(stores: Stores, file: KeptFile) -> pa.Table | None:
    """ENTRY_ROWS of a file; None for one that was harmed, or written by a version that kept less."""
    rows = read_kept(stores, file)
    return rows if rows is not None and rows.column_names == ENTRY_ROWS.names else None


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
        if (rows := read_entry_rows(cache.stores, file)) is not None:
            pairs = zip(manifest_keys(rows), rows["directories"].to_pylist(), strict=True)
            mine = {key: KnownNames(beside, directories) for key, directories in pairs if key in asked}
            if mine and (not whole or read_kept(cache.stores, beside) is not None):
                found |= mine
                cache.used.update((file.uri, beside.uri))
    manifests = list(found)
    rows = pa.table(
        {"path": pa.array([key.path for key in manifests], pa.string()), "length": [key.length for key in manifests]}
    )
    present = still_there(cache.stores, rows).to_pylist()
    return {key: found[key] for key, there in zip(manifests, present, strict=True) if there}


def still_there(stores: Stores, manifests: pa.Table) -> pa.Array:
    """Whether each of these manifests (path, length) is where it was, as long as it was.

    The cache knows what a manifest said. That the manifest is lost or cut by now is for its table to be refused for, so
    such a manifest is read, and not found whole.
    """
    try:
        lengths = pa.array(lengths_at(stores, manifests["path"].to_pylist()), pa.int64())
    except LakewardenError:
        return pa.repeat(False, manifests.num_rows)  # each is opened, and what cannot be refuses its own table
    same = pc.fill_null(pc.equal(lengths, manifests["length"].cast(pa.int64())), False)
    return same.combine_chunks() if isinstance(same, pa.ChunkedArray) else same


def known_rows(wanted: pa.Table, rows: pa.Table) -> NDArray[np.int64]:
    """For each of the wanted manifests the place in `rows` of the same ManifestKey; -1 if it is not there."""
    at = pc.index_in(_identities(wanted), _identities(rows))
    found: NDArray[np.int64] = pc.fill_null(at, -1).to_numpy().astype(np.int64)
    return found


def _identities(rows: pa.Table) -> pa.Array:
    """A ManifestKey as one text. The number comes first, so no other key has the same text, whatever its names hold."""
    home = pc.fill_null(rows[c.HOME], "")
    places = pc.utf8_length(home).cast(pa.string())
    # Whether there is a home is told apart from an empty one.
    parts = [rows["length"].cast(pa.string()), pc.is_null(rows[c.HOME]).cast(pa.string()), places, home, rows["path"]]
    found = pc.binary_join_element_wise(*parts, "\n")
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


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
