"""What the writers of all formats do alike: rows wait for their row group, a finished file goes off in pieces, and the rows
that were written are counted against those that were read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lakewarden.model.errors import IncompleteManifestError

MOST_ROWS = 1 << 20  # of one row group, which is in memory until it is written
_PIECE = 8 << 20


class Waiting:
    """Rows of the next row group.

    Decoded rows take more room than encoded ones, so a row group is rather too small than too large. Where files are to be
    small, half of one is the most: a file ends with a row group.
    """

    def __init__(self, schema: pa.Schema, row_group: int, target: int) -> None:
        self._schema, self._most = schema, min(row_group, target // 2)
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def __len__(self) -> int:
        """How many batches wait."""
        return len(self._batches)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Let these rows wait too. Whether there are enough for a row group."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        return self._bytes >= self._most or self._rows >= MOST_ROWS

    def taken(self) -> pa.Table:
        """All of them; none waits afterwards."""
        found = pa.Table.from_batches(self._batches, schema=self._schema)
        self._batches, self._rows, self._bytes = [], 0, 0
        return found


def pieces(local: Path) -> Iterator[bytes]:
    with local.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def check_sum(rows: int, deleted: int, written: int) -> None:
    """Raise IncompleteManifestError unless every row that was read was written or is deleted."""
    if written != rows - deleted:
        raise IncompleteManifestError(
            f"{rows} rows less {deleted} deleted ones became {written}; nothing of the group was changed"
        )
