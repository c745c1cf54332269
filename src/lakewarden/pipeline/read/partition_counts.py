"""The Spark job behind partition expiry: every manifest of every table's latest snapshot, summed by partition."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.frames import dealt, in_tasks, spread
from lakewarden.pipeline.read.manifests import ReadTask, once, read_lists
from lakewarden.pipeline.read.partitions import KEYS, PARTITIONS, SUMMED, Times, count_partitions
from lakewarden.pipeline.read.to_read import ToRead


def partitions_of(spark: SparkSession, wanted: ToRead, read: ReadTask, times: Times | None = None) -> pa.Table:
    """PARTITIONS of the wanted lists: as many rows as the tables have partitions, never as they have files."""
    # A note has no content, and must not be lost: a list that cannot be read is not an empty one.
    opened = F.col("content").isNull() | (F.col("content") != c.CONTENT_SIDECAR)
    counted = in_tasks(
        manifests_of(spark, wanted, read).where(opened), count_partitions(read, times), PARTITIONS
    ).groupBy(*KEYS)
    sums = counted.agg(F.max("newest").alias("newest"), *(F.sum(name).alias(name) for name in SUMMED))
    return sums.toArrow()


def manifests_of(spark: SparkSession, wanted: ToRead, read: ReadTask, schema: pa.Schema = c.MANIFESTS) -> DataFrame:
    """MANIFESTS (or INHERITED), and notes of lists that are not whole. A few lists are read before a Spark stage has begun."""
    if wanted.lists.num_rows > read.few_lists:
        return in_tasks(spread(spark, wanted.lists, wanted.lists.num_rows), read_lists(read, schema), schema)
    found = pa.Table.from_batches(read_lists(read, schema)(iter(wanted.lists.to_batches())), schema=schema)
    return dealt(spark, once(pa.concat_tables([found, wanted.manifests], promote_options="default")))
