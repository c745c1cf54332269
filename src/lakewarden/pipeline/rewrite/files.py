"""The Spark job behind a compaction run: groups of many tables rewritten side by side, each by one task's Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewarden.model.compaction import RewriteWorker
from lakewarden.pipeline import columns as c
from lakewarden.storage.stores import Stores

# One row per group: what is asked of its task, by which format; and what the task answers.
ORDERS = pa.schema([("group", pa.string()), ("format", pa.string()), ("order", pa.string())])
ANSWERS = pa.schema([("group", pa.string()), ("answer", pa.string())])

Batches = Iterable[pa.RecordBatch]


def rewrite_groups(
    spark: SparkSession, orders: pa.Table, workers: Mapping[str, RewriteWorker], stores: Stores
) -> Iterator[tuple[str, str]]:
    """ORDERS in; each group's answer as soon as the groups before it are done. One task a group: a slow one stops no other."""
    if not orders.num_rows:
        return
    rows = spark.createDataFrame(orders).repartition(orders.num_rows)
    answers = rows.mapInArrow(_rewritten(workers, stores), c.ddl(ANSWERS)).toArrow()
    yield from zip(answers["group"].to_pylist(), answers["answer"].to_pylist(), strict=True)


def _rewritten(workers: Mapping[str, RewriteWorker], stores: Stores) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                answer = workers[row["format"]].rewrite(row["order"], stores)
                yield pa.RecordBatch.from_pylist([{"group": row["group"], "answer": answer}], schema=ANSWERS)

    return run
