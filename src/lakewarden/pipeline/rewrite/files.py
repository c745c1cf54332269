"""The Spark job behind a compaction run: groups of many tables rewritten side by side, each by one task's Arrow."""

from __future__ import annotations

import heapq
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewarden.model.compaction import RewriteWorker
from lakewarden.pipeline.settled import seldom_collecting
from lakewarden.storage.stores import Stores

# One row per group: what is asked of its task, by which format, and how much work that is in bytes; what the task answers.
ORDERS = pa.schema([("group", pa.string()), ("format", pa.string()), ("order", pa.string()), ("weight", pa.int64())])
ANSWERS = pa.schema([("group", pa.string()), ("answer", pa.string())])
# Groups up to this weight share a task with others, as long as there is a task for each core a few times over.
SHARED_TASK = 64 << 20
_TASKS_A_CORE = 4

SECONDS_BETWEEN_LOOKS = 1.0


def rewrite_groups(
    spark: SparkSession,
    orders: pa.Table,
    workers: Mapping[str, RewriteWorker],
    stores: Stores,
    in_vain: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[str, str]]:
    """ORDERS in; each group's answer once all are done. Small groups share tasks, which cost more than they.

    `in_vain` is asked every second: once nobody wants what is written, the job is cancelled, and fails.
    """
    if not orders.num_rows:
        return
    context = spark.sparkContext
    tasks = shared_out(orders["weight"].to_pylist(), context.defaultParallelism)
    asked = [orders.take(pa.array(some)).select(["group", "format", "order"]).to_pylist() for some in tasks]
    with _cancelled_when(spark, in_vain):
        # Each task's orders in a partition of its own: a repartitioned frame would put two into some, and none into others.
        yield from context.parallelize(asked, len(asked)).flatMap(_rewritten(workers, stores)).collect()


def shared_out(weights: Sequence[int], cores: int) -> list[list[int]]:
    """The places of these weights by task, heaviest first: in as few tasks as stay light, but a few for each core, and for
    each as many as for the others, so that none has nothing to do while the last are at it."""
    turns = max(_TASKS_A_CORE, -(-sum(weights) // (SHARED_TASK * cores)))
    wanted = min(len(weights), turns * cores)
    tasks: list[tuple[int, int, list[int]]] = [(0, number, []) for number in range(wanted)]
    for place in sorted(range(len(weights)), key=lambda place: -weights[place]):
        load, number, some = heapq.heappop(tasks)
        heapq.heappush(tasks, (load + max(1, weights[place]), number, [*some, place]))
    return [some for _, _, some in sorted(tasks, key=lambda task: (-task[0], task[1]))]


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


def _rewritten(
    workers: Mapping[str, RewriteWorker], stores: Stores
) -> Callable[[Sequence[Mapping[str, str]]], list[tuple[str, str]]]:
    """The orders of one task in, the answers of their groups out."""

    def run(orders: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
        with seldom_collecting():
            return [(one["group"], workers[one["format"]].rewrite(one["order"], stores)) for one in orders]

    return run
