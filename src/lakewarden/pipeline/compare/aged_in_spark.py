"""The Spark side of a handover plan: many manifests read by tasks, their files joined and looked at there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.columns import ddl
from lakewarden.pipeline.compare.aged import AGED, FACTS, LookTask, Relations, look
from lakewarden.pipeline.read.frames import local
from lakewarden.pipeline.read.manifests import ReadTask, read_lists, read_manifests


def manifests_in_spark(spark: SparkSession, lists: pa.Table, read: ReadTask) -> pa.Table:
    """MANIFESTS by holder: as many rows as the lists have, never as they have files."""
    return local(spark, lists).mapInArrow(read_lists(read), ddl(c.MANIFESTS)).toArrow()


def marks_in_spark(spark: SparkSession, once: pa.Table, read: ReadTask) -> DataFrame:
    """MARKS by manifest number, kept for as long as the plan needs them."""
    return local(spark, once).mapInArrow(read_manifests(read), ddl(c.MARKS)).persist()


def notes_in_spark(marks: DataFrame) -> list[str]:
    """What tasks could not read."""
    return [row[c.KEY] for row in marks.where(F.col(c.MARK) == c.MARK_NOTE).select(c.KEY).collect()]


def look_in_spark(spark: SparkSession, marks: DataFrame, relations: Relations, task: LookTask) -> pa.Table:
    """FACTS of the aged-out snapshots' files; PLAN_ROWS lie in the plan's directory."""
    files = marks.where(F.col(c.MARK) == c.MARK_LIVE).withColumnRenamed(c.TABLE, "number")
    live_numbers = local(spark, pa.table({"number": relations.live.cast(pa.int32())}))
    live = files.join(F.broadcast(live_numbers), "number", "left_semi").select(c.KEY)
    live = live.unionByName(local(spark, pa.table({c.KEY: relations.live_keys.cast(pa.string())})))
    live = live.distinct().withColumn("live", F.lit(True))
    mine = files.join(F.broadcast(local(spark, relations.owners)), "number").select(c.TABLE, c.KEY, c.KIND)
    mine = mine.unionByName(local(spark, relations.named.select([c.TABLE, c.KEY, c.KIND])))
    mine = mine.groupBy(c.TABLE, c.KEY).agg(F.min(c.KIND).alias(c.KIND))
    known = local(spark, relations.known)
    aged = mine.join(live, c.KEY, "left").join(known, [c.TABLE, c.KEY], "left")
    aged = aged.withColumn("live", F.coalesce(F.col("live"), F.lit(relations.in_doubt)))
    return aged.select(*AGED.names).mapInArrow(look(task), ddl(FACTS)).toArrow()


def manifests_naming(spark: SparkSession, marks: DataFrame, keys: Sequence[str]) -> list[int]:
    """The numbers of the manifests that name any of these files."""
    wanted = local(spark, pa.table({c.KEY: pa.array(keys, pa.string())}))
    found = marks.join(F.broadcast(wanted), c.KEY, "left_semi").select(c.TABLE).distinct()
    return [int(row[c.TABLE]) for row in found.collect()]
