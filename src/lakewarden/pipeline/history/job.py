"""The Spark job behind audit questions over the archive: files to edges on every core, the closure in one task."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewarden.pipeline.history.closure import ANSWER, Start, in_one_task
from lakewarden.pipeline.history.edges import EDGES, reading_edges
from lakewarden.pipeline.read.frames import in_tasks, local, spread
from lakewarden.storage.stores import Stores


def downstream_by_spark(
    spark: SparkSession, files: pa.Table, live: pa.Table, start: Start, limit: int, stores: Stores
) -> pa.Table:
    """ANSWER over files of the archive (NUMBERED) and what tables have beyond them (EDGES)."""
    edges = in_tasks(spread(spark, files, files.num_rows), reading_edges(stores), EDGES)
    if live.num_rows:
        edges = edges.unionByName(local(spark, live))
    return in_tasks(edges.repartition(1), in_one_task(start, limit), ANSWER).toArrow()
