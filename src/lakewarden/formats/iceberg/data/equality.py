"""Which rows of a group its equality deletes delete.

A stream of upserts leaves a file of deletes beside each data file, and each applies to all data that is older: of a thousand
commits, half a million pairs. So each file of deletes is read once, and a key is held once, with the youngest file that has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lakewarden.formats.file_bytes import whole
from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.formats.iceberg.data.deletes import EqualityKeys
from lakewarden.formats.iceberg.data.order import EQUALITY, DeleteFile, Input
from lakewarden.formats.iceberg.data.projection import Absent, projected
from lakewarden.formats.iceberg.data.source import DataFiles
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError
from lakewarden.model.uri import canonical

# Above the rank of every file of deletes.
_NEVER = np.iinfo(np.int64).max


@dataclass
class _Chain:
    """Sets of files of deletes, by their paths, of which each holds the next one. The rank of a file is the last set that has
    it: it applies to the inputs of that set and of all before."""

    sets: list[frozenset[str]]
    keys: list[EqualityKeys] | None = None

    def ranks(self) -> dict[str, int]:
        return {path: place for place, some in enumerate(self.sets) for path in some}


class EqualityDeletes:
    """The equality deletes of a group's inputs, under the columns that the inputs are read by."""

    def __init__(self, files: DataFiles, fields: Sequence[pa.Field], inputs: Iterable[Input]) -> None:
        self._files = files
        self._known = {id_of(found): found for found in _within(fields)}
        # Inputs that have the same deletes share the set of them, which is known by its address in memory.
        sets = {id(one.deletes): one.deletes for one in inputs}
        mine = {number: [found for found in some if found.kind == EQUALITY] for number, some in sets.items()}
        self._deletes = {found.path: found for some in mine.values() for found in some}
        self._paths = {number: frozenset(found.path for found in some) for number, some in mine.items()}
        self._chains: list[_Chain] = []
        self._places: dict[frozenset[str], tuple[_Chain, int]] = {}
        for paths in sorted(self._paths.values(), key=len, reverse=True):
            self._put(paths)

    def _put(self, paths: frozenset[str]) -> None:
        """Into the first chain whose last set has all of these. Deletes of one partition are one chain: by their age."""
        if not paths or paths in self._places:
            return
        chain = next((one for one in self._chains if paths < one.sets[-1]), None)
        if chain is None:
            chain = _Chain([])
            self._chains.append(chain)
        self._places[paths] = chain, len(chain.sets)
        chain.sets.append(paths)

    def hits(self, batches: Sequence[pa.RecordBatch], inputs: Sequence[Input]) -> NDArray[np.bool_] | None:
        """Whether each row is deleted; None if no deletes apply. The rows are some of one input, or all of several."""
        places = [self._places.get(self._paths[id(one.deletes)]) for one in inputs]
        chains = [chain for chain in self._chains if any(found is not None and found[0] is chain for found in places)]
        if not chains:
            return None
        rows = sum(batch.num_rows for batch in batches)
        counts = [rows] if len(inputs) == 1 else [one.rows for one in inputs]
        found = np.zeros(rows, bool)
        for chain in chains:
            least = [place[1] if place is not None and place[0] is chain else _NEVER for place in places]
            ranks = np.repeat(np.array(least, np.int64), counts)
            at = 0
            for batch in batches:
                end = at + batch.num_rows
                for keys in self._keys(chain):
                    columns = [_column(batch, wanted) for wanted in keys.fields]
                    found[at:end] |= keys.hits(columns, ranks[at:end])
                at = end
        return found

    def _keys(self, chain: _Chain) -> list[EqualityKeys]:
        """The keys of a chain, those that go by the same columns together."""
        if chain.keys is None:
            by_columns: dict[tuple[int, ...], list[tuple[DeleteFile, int]]] = {}
            for path, rank in chain.ranks().items():
                deletion = self._deletes[path]
                by_columns.setdefault(tuple(sorted(deletion.equality_ids)), []).append((deletion, rank))
            chain.keys = [self._read(ids, some) for ids, some in by_columns.items()]
        return chain.keys

    def _read(self, ids: tuple[int, ...], deletes: Sequence[tuple[DeleteFile, int]]) -> EqualityKeys:
        if not ids or not set(ids) <= set(self._known):
            raise UnsupportedTableError(
                f"{deletes[0][0].path} deletes by a column that no schema has as one of its own; nothing was rewritten"
            )
        fields = [self._known[number].with_nullable(True) for number in ids]
        rows: list[pa.RecordBatch] = []
        for deletion, _ in deletes:
            data = pa.BufferReader(whole(self._files, canonical(deletion.path), deletion.size))
            table = pq.ParquetFile(data, pre_buffer=False, page_checksum_verification=True).read(use_threads=False)
            if table.num_rows != deletion.rows:
                raise IncompleteManifestError(
                    f"{deletion.path} has {table.num_rows} deletes and should have {deletion.rows}; nothing was rewritten"
                )
            rows += [projected(_keys_of(batch, ids, deletion), fields, Absent()) for batch in table.to_batches()]
        ranks = np.repeat(np.array([rank for _, rank in deletes], np.int64), [one.rows for one, _ in deletes])
        return EqualityKeys.of(fields, pa.Table.from_batches(rows, schema=pa.schema(fields)), ranks)


def _keys_of(batch: pa.RecordBatch, ids: Sequence[int], deletion: DeleteFile) -> pa.RecordBatch:
    """The columns that a file deletes by, those within structs too: a missing struct has no member."""
    found = {id_of(column): (column, array) for column, array in _columns(batch.schema, batch.columns)}
    if not set(ids) <= set(found):
        raise UnsupportedTableError(
            f"{deletion.path} lacks a column that it deletes by, or has it within a list; nothing was rewritten"
        )
    fields, arrays = zip(*(found[number] for number in ids), strict=True)
    return pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema([column.with_nullable(True) for column in fields]))


def _column(rows: pa.RecordBatch, wanted: pa.Field) -> pa.Array:
    """A column by its id, also within structs."""
    for found, array in _columns(rows.schema, rows.columns):
        if id_of(found) == id_of(wanted):
            return array
    raise UnsupportedTableError(f"an equality delete goes by {wanted.name}, which no schema has; nothing was rewritten")


def _columns(fields: Any, arrays: Sequence[pa.Array]) -> Iterator[tuple[pa.Field, pa.Array]]:
    for found, array in zip(fields, arrays, strict=True):
        yield found, array
        if pa.types.is_struct(found.type):
            yield from _columns(found.type, array.flatten())


def _within(fields: Any) -> Iterator[pa.Field]:
    for found in fields:
        yield found
        if pa.types.is_struct(found.type):
            yield from _within(found.type)
