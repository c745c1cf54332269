"""The files of a plan in batches: always the same ones under the same numbers, so that a run can go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewarden.model.errors import PlanError
from lakewarden.model.files import BatchFiles
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.run import PlanResult
from lakewarden.pipeline import columns as c
from lakewarden.steps.plan.ordered import OrderedRows


@dataclass(frozen=True, slots=True)
class Batch:
    """One step of an apply: its files, the roots they lie in, and the roots that end with it."""

    number: int
    files: BatchFiles
    roots: tuple[str, ...]
    finished: tuple[str, ...]


def batches_of(result: PlanResult, rows: OrderedRows, size: int, first: int = 0) -> Iterator[Batch]:
    """Batches of at most `size` of these orphans, root by root, by name; those before `first` are left out."""
    prefixes = dict(_prefixes(result, rows))
    left = rows.counts.copy()
    for number, piece in enumerate(_pieces(rows, size)):
        ids = Counter(_values(piece[c.ROOT]))
        left.subtract(ids)
        if number < first:
            continue
        finished = tuple(prefixes[root] for root in ids if not left[root])
        yield Batch(number, _files(piece), tuple(prefixes[root] for root in ids), finished)


def _pieces(rows: OrderedRows, size: int) -> Iterator[pa.Table]:
    """The rows, so many at a time."""
    waiting: list[pa.Table] = []
    for table in rows:
        waiting.append(table)
        if sum(one.num_rows for one in waiting) < size:
            continue
        found = pa.concat_tables(waiting)
        whole = found.num_rows - found.num_rows % size
        for start in range(0, whole, size):
            yield found.slice(start, size)
        waiting = [found.slice(whole)]
    if (rest := pa.concat_tables([c.PLAN_ROWS.empty_table(), *waiting])).num_rows:
        yield rest


def _prefixes(result: PlanResult, rows: OrderedRows) -> Iterator[tuple[int, str]]:
    """Each root's prefix, found by a file that lies in it."""
    roots = Prefixes(root.prefix for root in result.plan.roots)
    for number, uri in rows.least.items():
        if (prefix := roots.of(uri)) is None:
            raise PlanError(f"{uri} lies under no root of plan {result.plan.plan_id}; nothing was done")
        yield number, prefix


def _files(rows: pa.Table) -> BatchFiles:
    return BatchFiles(
        _values(rows["uri"]),
        _values(rows[c.SIZE]),
        _values(rows[c.MODIFIED].cast(pa.int64())),
        _values(rows[c.ETAG]),
        _values(rows["table"]),
        _values(rows[c.KIND]),
    )


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column as a list. Through NumPy it is ten times as fast, but numbers with gaps would become fractions."""
    if column.null_count and not pa.types.is_string(column.type):
        return list(column.to_pylist())
    return list(column.to_numpy().tolist())
