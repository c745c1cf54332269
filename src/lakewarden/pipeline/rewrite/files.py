"""The Spark job behind a compaction run: groups of many tables rewritten side by side, each by one task's Arrow."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewarden.model.compaction import RewriteWorker
from lakewarden.pipeline import columns as c
from lakewarden.storage.stores import Stores

# One row per group: what is asked of its task, by which format; and what the task answers.
ORDERS = pa.schema([("group", pa.string()), ("format", pa.string()), ("order", pa.string())])
ANSWERS = pa.schema([("group", pa.string()), ("answer", pa.string())])

SECONDS_BETWEEN_LOOKS = 1.0

Batches = Iterable[pa.RecordBatch]


def rewrite_groups(
    spark: SparkSession,
    orders: pa.Table,
    workers: Mapping[str, RewriteWorker],
    stores: Stores,
    in_vain: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[str, str]]:
    """ORDERS in; each group's answer as soon as the groups before it are done. One task a group: a slow one stops no other.

    `in_vain` is asked every second: once nobody wants what is written, the job is cancelled, and fails.
    """
    if not orders.num_rows:
        return
    rows = spark.createDataFrame(orders).repartition(orders.num_rows)
    with _cancelled_when(spark, in_vain):
        answers = rows.mapInArrow(_rewritten(workers, stores), c.ddl(ANSWERS)).toArrow()
    yield from zip(answers["group"].to_pylist(), answers["answer"].to_pylist(), strict=True)


@contextmanager
def _cancelled_when(spark: SparkSession, in_vain: Callable[[], bool]) -> Iterator[None]:
    """Cancel the jobs that this thread starts inside as soon as they are in vain."""
    tag, ended = f"lakewarden-rewrite-{uuid.uuid4().hex}", threading.Event()
    context = spark.sparkContext

    def watch() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            if in_vain():
                context.cancelJobsWithTag(tag)
                return

    watcher = threading.Thread(target=watch, name="leases of a rewrite", daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        context.removeJobTag(tag)


def _rewritten(workers: Mapping[str, RewriteWorker], stores: Stores) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                answer = workers[row["format"]].rewrite(row["order"], stores)
                yield pa.RecordBatch.from_pylist([{"group": row["group"], "answer": answer}], schema=ANSWERS)

    return run
