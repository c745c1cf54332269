"""The files of a plan in batches: always the same ones under the same numbers, so that a run can go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewarden.model.errors import PlanError
from lakewarden.model.files import BatchFiles
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.run import PlanResult
from lakewarden.pipeline import columns as c


@dataclass(frozen=True, slots=True)
class Batch:
    """One step of an apply: its files, the roots they lie in, and the roots that end with it."""

    number: int
    files: BatchFiles
    roots: tuple[str, ...]
    finished: tuple[str, ...]


def batches_of(result: PlanResult, rows: pa.Table, size: int) -> Iterator[Batch]:
    """Batches of at most `size` of these orphans, root by root, by name."""
    prefixes = dict(_prefixes(result, rows))
    ids = _values(rows[c.ROOT])
    for number, start in enumerate(range(0, rows.num_rows, size)):
        roots = list(dict.fromkeys(ids[start : start + size]))
        following = ids[start + size] if start + size < len(ids) else None
        yield Batch(
            number,
            _files(rows.slice(start, size)),
            tuple(prefixes[root] for root in roots),
            tuple(prefixes[root] for root in roots if root != following),
        )


def _prefixes(result: PlanResult, rows: pa.Table) -> Iterator[tuple[int, str]]:
    """Each root's prefix, found by a file that lies in it."""
    firsts = rows.select([c.ROOT, "uri"]).group_by([c.ROOT]).aggregate([("uri", "min")])
    roots = Prefixes(root.prefix for root in result.plan.roots)
    for row in firsts.to_pylist():
        if (prefix := roots.of(row["uri_min"])) is None:
            raise PlanError(f"{row['uri_min']} lies under no root of plan {result.plan.plan_id}; nothing was done")
        yield row[c.ROOT], prefix


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
