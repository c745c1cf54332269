"""The Spark job behind partition expiry: every manifest of every table's latest snapshot, summed by partition."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.frames import dealt, spread
from lakewarden.pipeline.read.manifests import FEW_LISTS, ReadTask, once, read_lists
from lakewarden.pipeline.read.partitions import DDL, KEYS, SUMMED, Times, count_partitions
from lakewarden.pipeline.read.to_read import ToRead


def partitions_of(spark: SparkSession, wanted: ToRead, read: ReadTask, times: Times | None = None) -> pa.Table:
    """PARTITIONS of the wanted lists: as many rows as the tables have partitions, never as they have files."""
    # A note has no content, and must not be lost: a list that cannot be read is not an empty one.
    opened = F.col("content").isNull() | (F.col("content") != c.CONTENT_SIDECAR)
    counted = (
        manifests_of(spark, wanted, read).where(opened).mapInArrow(count_partitions(read, times), DDL).groupBy(*KEYS)
    )
    sums = counted.agg(F.max("newest").alias("newest"), *(F.sum(name).alias(name) for name in SUMMED))
    return sums.toArrow()


def manifests_of(spark: SparkSession, wanted: ToRead, read: ReadTask) -> DataFrame:
    """MANIFESTS, and notes of lists that are not whole. A few lists are read before a Spark stage has begun."""
    if wanted.lists.num_rows > FEW_LISTS:
        return spread(spark, wanted.lists, wanted.lists.num_rows).mapInArrow(read_lists(read), c.ddl(c.MANIFESTS))
    found = pa.Table.from_batches(read_lists(read)(iter(wanted.lists.to_batches())), schema=c.MANIFESTS)
    return dealt(spark, once(pa.concat_tables([found, wanted.manifests])))
