"""The Spark job behind partition expiry: every manifest of every table's latest snapshot, summed by partition."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.by_join import Cached, manifests_of
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.partitions import DDL, KEYS, Times, count_partitions
from lakewarden.pipeline.read.to_read import ToRead


def partitions_of(spark: SparkSession, wanted: ToRead, read: ReadTask, times: Times | None = None) -> pa.Table:
    """PARTITIONS of the wanted lists: as many rows as the tables have partitions, never as they have files."""
    # A note has no content, and must not be lost: a list that cannot be read is not an empty one.
    opened = F.col("content").isNull() | (F.col("content") != c.CONTENT_SIDECAR)
    manifests = manifests_of(spark, wanted, read, Cached()).where(opened)
    counted = manifests.mapInArrow(count_partitions(read, times), DDL).groupBy(*KEYS)
    sums = counted.agg(
        F.sum("files").alias("files"), F.max("newest").alias("newest"), F.sum("unknown").alias("unknown")
    )
    return sums.toArrow()
