"""Rows that were deleted by position while their file was rewritten: where they are in the new files.

A group need not be given up for them. Rows keep their order on the way: the inputs come one after the other, each without
the rows whose deletes were applied. So a row's place among the new files can be counted, and the delete is carried over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakewarden.formats.iceberg.compaction.head import Head
from lakewarden.formats.iceberg.compaction.new_manifests import Replacement
from lakewarden.formats.iceberg.data.deletes import Positions, file_positions, vector_positions
from lakewarden.formats.iceberg.data.order import BY_ENGINE, EQUALITY, POSITION, VECTOR, DeleteFile, Input
from lakewarden.model.errors import IncompleteManifestError
from lakewarden.model.ports import Files
from lakewarden.model.uri import canonical

# A driver reads these deletes. A group that so many more rows were deleted from is better rewritten again.
MOST_BYTES = 64 << 20


class NotCarriedError(Exception):
    """The places of deleted rows in the new files cannot be told; the message says why."""


def carried(group: Replacement, head: Head, read_at: int, files: Files) -> Mapping[str, Positions]:
    """By new file, the rows of it that were deleted from the inputs since they were read. Raises NotCarriedError.

    Deletes that name other files alone delete none: then it does not matter whether places could be counted.
    """
    taken = _Reader(files, [one.path for one in group.order.inputs])
    found = [_applied_and_new(one, head, read_at, taken) for one in group.order.inputs]
    if not any(len(new) for _, new in found):
        return {}
    if group.result.way == BY_ENGINE or group.order.sort is not None:
        raise NotCarriedError("its rows were put in another order")
    if any(deletion.kind == EQUALITY for one in group.order.inputs for deletion in one.deletes):
        raise NotCarriedError("rows of it were deleted by value, and which these were is not known any more")
    places: list[Positions] = []
    behind = 0
    for one, (applied, new) in zip(group.order.inputs, found, strict=True):
        places.append(behind + new - np.searchsorted(applied, new))
        behind += one.rows - len(applied)
    if behind != sum(file.rows for file in group.result.files):
        raise NotCarriedError("its new files have another number of rows than was counted")
    return dict(_by_file(group, np.concatenate(places)))


def _applied_and_new(one: Input, head: Head, read_at: int, taken: _Reader) -> tuple[Positions, Positions]:
    """The rows of an input whose deletes by position were applied, and those that were deleted so since."""
    known = {deletion.name for deletion in one.deletes}
    values: set[str] = set()
    now: list[DeleteFile] = []
    for found in head.deletes.on(head.data[one.path][1]):
        if found.deletion.kind != EQUALITY:
            now.append(found.deletion)
        elif found.live.sequence <= read_at:
            # One that came since applies to the new file too.
            values.add(found.deletion.name)
    by_value = {deletion.name for deletion in one.deletes if deletion.kind == EQUALITY}
    if values - by_value:
        raise NotCarriedError("rows of it were deleted by value meanwhile, as of an earlier commit")
    if by_value - values:
        raise NotCarriedError("rows that were deleted by value were brought back")
    applied = taken.positions(one, one.deletes)
    gone = applied if {d.name for d in now} == known - by_value else taken.positions(one, now)
    if len(np.setdiff1d(applied, gone, assume_unique=True)):
        raise NotCarriedError("rows were brought back")
    if len(gone) and (gone[0] < 0 or gone[-1] >= one.rows):
        raise NotCarriedError("deletes name rows that it does not have")
    return applied, np.setdiff1d(gone, applied, assume_unique=True)


def _by_file(group: Replacement, places: Positions) -> Iterator[tuple[str, Positions]]:
    first = 0
    for file in group.result.files:
        start, end = np.searchsorted(places, [first, first + file.rows])
        if end > start:
            yield file.path, places[start:end] - first
        first += file.rows


class _Reader:
    """Reads files of deletes, each once, for what they say of these data files."""

    def __init__(self, files: Files, paths: Sequence[str]) -> None:
        self._files, self._paths = files, paths
        self._left = MOST_BYTES
        self._read: dict[str, bytes] = {}
        self._positions_in: dict[str, Mapping[str, Positions]] = {}

    def positions(self, one: Input, deletes: Sequence[DeleteFile]) -> Positions:
        """The rows of a data file that these delete, in order and once each."""
        vectors = [deletion for deletion in deletes if deletion.kind == VECTOR]
        # A vector holds everything that position deletes said before it.
        chosen = vectors or [deletion for deletion in deletes if deletion.kind == POSITION]
        found = [self._positions(one, deletion) for deletion in chosen]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def _positions(self, one: Input, deletion: DeleteFile) -> Positions:
        try:
            if deletion.kind == VECTOR:
                assert deletion.offset is not None
                assert deletion.length is not None
                blob = self._bytes(deletion)[deletion.offset : deletion.offset + deletion.length]
                return vector_positions(blob, deletion.rows, deletion.name)
            if deletion.path not in self._positions_in:
                data = pa.py_buffer(self._bytes(deletion))
                found = file_positions(data, self._paths, deletion.rows, deletion.path)
                self._positions_in[deletion.path] = found
            return self._positions_in[deletion.path][one.path]
        except (IncompleteManifestError, OSError) as error:
            raise NotCarriedError(f"{deletion.path} cannot be read") from error

    def _bytes(self, deletion: DeleteFile) -> bytes:
        if deletion.path not in self._read:
            self._left -= deletion.size
            if self._left < 0:
                raise NotCarriedError("more was deleted than is worth carrying over")
            found = self._read[deletion.path] = self._files.get(canonical(deletion.path))
            if len(found) != deletion.size:
                raise NotCarriedError(f"{deletion.path} is not as long as its manifest says")
        return self._read[deletion.path]
