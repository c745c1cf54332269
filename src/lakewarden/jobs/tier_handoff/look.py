"""One look at the files of aged-out snapshots, each where it lies: what is to be copied, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from lakewarden.model.ports import Stat
from lakewarden.model.tiers import Move
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.answer import COUNTS, PARTS, answer_schema, summed, task_answer
from lakewarden.pipeline.compare.plan_files import write_part
from lakewarden.pipeline.read.names import KIND_CODES, KINDS
from lakewarden.storage.copying import sizes_at, stats_at
from lakewarden.storage.stores import Stores

MOST_LOST = 1000

# Files of which a verified copy is in the cold place already.
KNOWN = pa.schema([(c.TABLE, pa.int32()), ("files", pa.int64())])
# Files that are gone.
LOST = pa.schema([(c.TABLE, pa.int32()), (c.KEY, pa.string())])
# Files whose cold address holds the copy of another one, which snapshots that were handed over need there.
TAKEN = pa.schema([(c.TABLE, pa.int32()), (c.KEY, pa.string()), ("target", pa.string()), ("holder", pa.string())])
# Manifests that are not as long as their lists say.
CUT = pa.schema([(c.TABLE, pa.int32()), (c.KEY, pa.string()), (c.SIZE, pa.int64()), ("length", pa.int64())])
# Delete files in a format in which the addresses of data files cannot be changed.
UNMOVABLE = pa.schema([(c.TABLE, pa.int32()), (c.KEY, pa.string())])
LISTS = {
    "counts": COUNTS,
    "known": KNOWN,
    "lost": LOST,
    "taken": TAKEN,
    "cut": CUT,
    "unmovable": UNMOVABLE,
    "parts": PARTS,
}
LOOKED = answer_schema(LISTS)

Batches = Iterable[pa.RecordBatch]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class LookTask:
    """What a looking task carries: the stores, the tables' names and moves, where the plan's files go.

    `taken`: by table, the cold addresses at which the copy of another file lies, each with that file.
    """

    stores: Stores
    identifiers: Mapping[int, str]
    moves: Mapping[int, Move]
    directory: str
    taken: Mapping[int, Mapping[str, str]]

    def target(self, row: Row) -> str:
        return self.moves[row[c.TABLE]](row[c.KEY])


def look(task: LookTask) -> Callable[[Batches], Batches]:
    """RELEASED in, one row of LOOKED out; PLAN_ROWS of the files to copy go to the plan's directory."""

    def run(batches: Batches) -> Batches:
        told: dict[str, list[pa.Table]] = {name: [] for name in LISTS}
        for batch in batches:
            for name, rows in _looked(task, batch.to_pylist()).items():
                told[name].append(summed(pa.Table.from_pylist(list(rows), schema=LISTS[name])))
        yield task_answer(told, LISTS)

    return run


def _looked(task: LookTask, rows: Sequence[Row]) -> dict[str, Iterable[Row]]:
    known, wanted = _told_apart(task, rows)
    here = list(zip(wanted, stats_at(task.stores, [row[c.KEY] for row in wanted]), strict=True))
    planned = [_plan_row(task, row, stat) for row, stat in here if stat is not None]
    return {
        "counts": [{**row, "files": 1, "bytes": row[c.SIZE]} for row in planned],
        "known": [{c.TABLE: row[c.TABLE], "files": 1} for row in known],
        "lost": _lost(row for row, stat in here if stat is None),
        "taken": _taken(task, wanted),
        "cut": [{**row, c.SIZE: stat.size} for row, stat in here if stat and row["length"] not in (None, stat.size)],
        "unmovable": [row for row in wanted if _unmovable(row)],
        "parts": _written(task, planned),
    }


def _told_apart(task: LookTask, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Files whose recorded copy is there with its size, and files to copy: another's rule may have taken a copy."""
    recorded = [row for row in rows if row["copy"] is not None]
    sizes = sizes_at(task.stores, [task.target(row) for row in recorded])
    gone = [row for row, size in zip(recorded, sizes, strict=True) if size != row["copy"]]
    there = [row for row, size in zip(recorded, sizes, strict=True) if size == row["copy"]]
    return there, [*(row for row in rows if row["copy"] is None), *gone]


def _plan_row(task: LookTask, row: Row, stat: Stat) -> Row:
    """A row of PLAN_ROWS, with the file's cold address as the reason, and the table's number."""
    return {
        c.TABLE: row[c.TABLE],
        "uri": row[c.KEY],
        "table": task.identifiers[row[c.TABLE]],
        "verdict": str(Verdict.LIVE if row["live"] else Verdict.PENDING),
        "reason": task.target(row),
        c.KIND: str(KINDS[row[c.KIND]]),
        c.SIZE: stat.size,
        c.MODIFIED: stat.modified,
        c.ETAG: stat.etag,
        c.ROOT: 0,
    }


def _written(task: LookTask, planned: Sequence[Row]) -> Iterator[Row]:
    if planned:
        rows = pa.Table.from_pylist(list(planned), schema=c.PLAN_ROWS)
        yield asdict(write_part(task.stores, task.directory, rows))


def _lost(rows: Iterable[Row]) -> Iterator[Row]:
    """Lost files, up to a limit a table: what is named here is left out, and the rest is looked at again.

    Statistics only help to plan queries: a snapshot without them is whole.
    """
    counts: dict[int, int] = {}
    for row in rows:
        if row[c.KIND] != KIND_CODES[Kind.STATISTICS]:
            counts[row[c.TABLE]] = counts.get(row[c.TABLE], 0) + 1
            if counts[row[c.TABLE]] <= MOST_LOST:
                yield row


def _unmovable(row: Row) -> bool:
    return row[c.KIND] == KIND_CODES[Kind.DELETE] and str(row[c.KEY]).lower().endswith(".orc")


def _taken(task: LookTask, rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        if others := task.taken.get(row[c.TABLE]):
            target = task.target(row)
            if (holder := others.get(canonical(target))) is not None:
                yield {**row, "target": target, "holder": holder}
