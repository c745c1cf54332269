"""Which files holders need, exactly: snapshots, tags and commits, each by its own rule.

Orphan cleanup keeps whatever any manifest names. Expiry and physical deletion must know more: a file that one entry
added and another deleted is still named by both, and needed by neither.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.model.table import Hold
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.by_join import Cached, local, manifests_of
from lakewarden.pipeline.compare.holders import HOLDER, Holdings
from lakewarden.pipeline.read.manifests import ReadTask, read_manifests


def marks_of(spark: SparkSession, holdings: Holdings, read: ReadTask) -> DataFrame:
    """MARKS of every file that a holder needs, by the holder's mark, and the tasks' notes; tables by their numbers."""
    found = _read(spark, holdings, read)
    note = F.col(c.MARK) == c.MARK_NOTE
    deleted = F.col(c.MARK).bitwiseAND(c.MARK_DELETED) != 0
    net = F.col("hold") == Hold.NET
    counted = found.where(net & ~note).groupBy(HOLDER, c.TABLE, c.KEY, "given")
    summed = counted.agg(F.min(c.KIND).alias(c.KIND), F.sum(F.when(deleted, -1).otherwise(1)).alias("net"))
    shown = summed.where(F.col("net") > 0).withColumn(c.MARK, F.col("given"))
    plain = found.where(note | (~net & ~((F.col("hold") == Hold.ADDED) & deleted)))
    plain = plain.withColumn(c.MARK, F.when(note, F.col(c.MARK)).otherwise(F.col("given")))
    return plain.select(*c.MARKS.names).unionByName(shown.select(*c.MARKS.names))


def needs(spark: SparkSession, holdings: Holdings, read: ReadTask) -> dict[int, int]:
    """How many files each table needs, wherever they lie, by the table's number."""
    needed = marks_of(spark, holdings, read).where(F.col(c.MARK).bitwiseAND(c.MARK_LIVE) != 0)
    return {row[c.TABLE]: row["count"] for row in needed.groupBy(c.TABLE).count().collect()}


def _read(spark: SparkSession, holdings: Holdings, read: ReadTask) -> DataFrame:
    """MARKS with holder, hold and the mark that the holder gives."""
    manifests = manifests_of(spark, holdings.wanted, read, Cached())
    holders = F.broadcast(local(spark, holdings.rows).withColumnRenamed(c.MARK, "given"))
    marks = manifests.select(*c.MANIFESTS.names).mapInArrow(read_manifests(read), c.ddl(c.MARKS))
    marks = marks.unionByName(local(spark, holdings.wanted.named)).withColumnRenamed(c.TABLE, HOLDER)
    return marks.join(holders, HOLDER)
