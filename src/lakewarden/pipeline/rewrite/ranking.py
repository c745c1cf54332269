"""The groups of the whole fleet, best first: the curve of what they are worth, and where a budget cuts it.

Spark sorts them: groups grow with the lake, and no list of them comes to the driver, nor into the memory of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakewarden.model.worth import POINTS, Budget, Ranked, Worth, summed_up
from lakewarden.pipeline.read.frames import in_tasks

SUMS = [one.name for one in fields(Worth)]
_SUMMED = [(name, pa.int64()) for name in SUMS]
# One row a group, best first; what is asked of it to be ranked.
RANKED = pa.schema([("group", pa.string()), ("per_cost", pa.float64()), *_SUMMED])
# One row a stretch, best first. `worse` and `name` are of the first group that the budget leaves out, in any one of them.
STRETCHES = pa.schema([*_SUMMED, ("worse", pa.float64()), ("name", pa.string())])

Batches = Iterable[pa.RecordBatch]


def rank(groups: DataFrame, budget: Budget) -> Ranked:
    """RANKED in any order in.

    Groups are taken while those before them are within the budget: the one that reaches it is still taken, so that a
    budget smaller than every group does not mean that nothing is ever done.
    """
    # The budget is one for all, so that one task goes through all of them.
    best_first = groups.select(*RANKED.names).repartition(1).sortWithinPartitions(F.desc("per_cost"), "group")
    rows = in_tasks(best_first, stretches(budget.bytes), STRETCHES).toArrow().to_pylist()
    first = next(((row["worse"], row["name"]) for row in rows if row["name"] is not None), None)
    return Ranked(summed_up(Worth.of(row) for row in rows), first)


def stretches(budget: int | None) -> Callable[[Batches], Batches]:
    """RANKED in, best first; STRETCHES out, of about the same bytes each, and at most POINTS of them."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        sums, places, width = np.zeros((0, len(SUMS)), np.int64), np.zeros(0, np.int64), 1
        before, beyond = 0, (None, None)
        for batch in filter(len, batches):
            own = np.stack([batch.column(name).to_numpy() for name in SUMS], axis=1)
            ends = before + np.cumsum(own[:, SUMS.index("bytes")])
            starts = np.concatenate([[before], ends[:-1]])
            if budget is not None and beyond == (None, None) and starts[-1] >= budget:
                first = int(np.searchsorted(starts, budget))
                beyond = -batch.column("per_cost")[first].as_py(), batch.column("group")[first].as_py()
            before = int(ends[-1])
            sums, places = np.concatenate([sums, own]), np.concatenate([places, starts // width])
            while np.count_nonzero(np.diff(places)) >= POINTS:
                # As wide as they have to be, without knowing beforehand what all groups come to.
                places, width = places // 2, width * 2
            first_of = np.flatnonzero(np.diff(places, prepend=-1))
            sums, places = np.add.reduceat(sums, first_of), places[first_of]
        told = [dict(zip(SUMS, row, strict=True), worse=beyond[0], name=beyond[1]) for row in sums.tolist()]
        yield from pa.Table.from_pylist(told, schema=STRETCHES).to_batches()

    return run
