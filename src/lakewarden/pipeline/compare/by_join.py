"""One Spark job over the whole fleet: list, read metadata, join, judge, write the plan's files.

Tables are a column. The number of stages does not grow with the number of tables, and nothing that grows
with the lake comes back to the driver: only counts, names of written files, and notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.model.ports import Shard
from lakewarden.model.roots import BY_NAME, Root
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.columns import ddl
from lakewarden.pipeline.compare.plan_files import PartTask, judge_and_write
from lakewarden.pipeline.compare.verdicts import STREAMING
from lakewarden.pipeline.read.cache import LIST_CACHE, MANIFEST_CACHE
from lakewarden.pipeline.read.inventory import inventories_table, read_inventory, read_parquet
from lakewarden.pipeline.read.listing import list_shards, shards_table
from lakewarden.pipeline.read.manifests import NOTE, ReadTask, read_lists, read_manifests
from lakewarden.pipeline.read.names import KIND_CODES, SOFT
from lakewarden.pipeline.read.to_read import ToRead

FEW_ROOTS = 64


@dataclass(frozen=True)
class Cached:
    """Addresses of the cache files that may be used, by kind."""

    lists: Sequence[str] = ()
    manifests: Sequence[str] = ()


def listing(spark: SparkSession, shards: list[Shard], read: ReadTask) -> DataFrame:
    """LISTED: one row per object under the shards."""
    return local(spark, shards_table(shards)).mapInArrow(list_shards(read.stores), ddl(c.LISTED))


def reached(spark: SparkSession, wanted: ToRead, read: ReadTask, cached: Cached) -> DataFrame:
    """MARKS: one row per reason to keep a file."""
    marks = local(spark, wanted.named)
    if wanted.lists.num_rows or wanted.manifests.num_rows:
        marks = marks.unionByName(files_of(spark, manifests_of(spark, wanted, read, cached), read, cached))
    return marks


def manifests_of(spark: SparkSession, wanted: ToRead, read: ReadTask, cached: Cached) -> DataFrame:
    """MANIFESTS: each manifest once, needed for certain if any list that is not soft names it."""
    lists = local(spark, wanted.lists)
    unread = lists
    parts = [local(spark, wanted.manifests)] if wanted.manifests.num_rows else []
    if cached.lists:
        known = stored(spark, cached.lists, LIST_CACHE, read)
        parts.append(lists.drop("data_files", "delete_files", "length").join(known, "uri").select(*c.MANIFESTS.names))
        unread = lists.join(known.select("uri").distinct(), "uri", "left_anti").select(*c.LISTS.names)
    parts.append(unread.mapInArrow(read_lists(read), ddl(c.MANIFESTS)))
    keys = ["path", "length", "rows", "live", "content", c.TABLE, "format", c.HOME]
    return _union(parts).groupBy(*keys).agg(F.min("soft").alias("soft")).select(*c.MANIFESTS.names)


def files_of(spark: SparkSession, manifests: DataFrame, read: ReadTask, cached: Cached) -> DataFrame:
    """MARKS of manifests and the live files they name: proven rows from the cache, the others read now."""
    unread, parts = manifests, []
    if cached.manifests:
        manifests = manifests.persist()
        known = stored(spark, cached.manifests, MANIFEST_CACHE, read)
        hits = manifests.select(c.TABLE, "path", "length", "soft").join(known, ["path", "length"])
        kind = F.col(c.KIND) + F.when(F.col("soft"), SOFT).otherwise(0)
        parts.append(hits.withColumn(c.KIND, kind).withColumn(c.MARK, F.lit(c.MARK_LIVE)).select(*c.MARKS.names))
        proven = known.where(F.col(c.KIND) == KIND_CODES[Kind.MANIFEST]).select("path", "length")
        unread = manifests.join(proven, ["path", "length"], "left_anti").select(*c.MANIFESTS.names)
    parts.append(unread.mapInArrow(read_manifests(read, soft_kinds=True), ddl(c.MARKS)))
    return _union(parts)


def facts(listed: DataFrame, marks: DataFrame, part: PartTask, memories: DataFrame | None = None) -> pa.Table:
    """Join, judge and write: FACTS comes back, PLAN_ROWS lie in the plan's directory. `memories` are MARKS by address."""
    if memories is not None and not part.homes:
        marks, memories = marks.unionByName(memories), None
    if len(part.prefixes) <= FEW_ROOTS:
        # Most of a fleet's live files lie outside the few roots that a narrow selection sweeps.
        under = F.col(c.KEY).startswith(NOTE) | F.col(c.KEY).startswith(BY_NAME)
        for prefix in part.prefixes:
            under = under | F.col(c.KEY).startswith(prefix)
        marks = marks.where(under)
    needed = marks.groupBy(c.KEY).agg(
        F.min(c.TABLE).alias(c.TABLE),
        F.max(c.TABLE).alias("other"),
        F.min(c.KIND).alias(c.KIND),
        F.bit_or(c.MARK).alias(c.MARK),
    )
    joined = _by_name(listed, needed, part.homes) if part.homes else listed.join(needed, c.KEY, "full_outer")
    if memories is not None:
        joined = _remembered(joined, memories)
    live = (F.col(c.MARK).bitwiseAND(c.MARK_LIVE) != 0) & F.col(c.ROOT).isNotNull()
    # A live row is only counted, so its name does not have to travel any further.
    counted = [
        F.when(live, None).otherwise(F.col(n)).alias(n) if n in (c.KEY, c.ETAG) else F.col(n) for n in c.JOINED.names
    ]
    return joined.select(*counted).mapInArrow(judge_and_write(part), ddl(c.FACTS)).toArrow()


def _by_name(listed: DataFrame, needed: DataFrame, homes: Mapping[int, str]) -> DataFrame:
    """The join where some roots' files are compared by bare name: the listed address stays the key."""
    home = F.element_at(F.create_map(*(F.lit(part) for item in homes.items() for part in item)), F.col(c.ROOT))
    name = F.regexp_replace(F.col(c.KEY), "^.*/", "")
    listed = listed.withColumn("match", F.coalesce(F.concat(home, name), F.col(c.KEY)))
    found = listed.join(needed.withColumnRenamed(c.KEY, "match"), "match", "full_outer")
    return found.withColumn(c.KEY, F.coalesce(F.col(c.KEY), F.col("match"))).drop("match")


def _remembered(joined: DataFrame, memories: DataFrame) -> DataFrame:
    """What is remembered of listed files, added by their address: a name that metadata needs is found elsewhere too."""
    known = memories.groupBy(c.KEY).agg(F.bit_or(c.MARK).alias("memory"))
    both = F.coalesce(c.MARK, F.lit(0)).bitwiseOR(F.coalesce("memory", F.lit(0)))
    return joined.join(known, c.KEY, "left").withColumn(c.MARK, both).drop("memory")


def stored(spark: SparkSession, uris: Sequence[str], schema: pa.Schema, read: ReadTask) -> DataFrame:
    """Rows of Parquet files of ours. Spark reads local ones itself; others go through the stores, which have the keys."""
    if all(uri.startswith("file://") for uri in uris) and str(spark.sparkContext.master).startswith("local"):
        return spark.read.schema(ddl(schema)).parquet(*(uri.replace("%", "%25") for uri in uris)).select(*schema.names)
    files = local(spark, pa.table({"uri": pa.array(uris, pa.string())}))
    return files.mapInArrow(read_parquet(read.stores, schema), ddl(schema))


def listed_in(spark: SparkSession, parts: Sequence[str], read: ReadTask) -> DataFrame:
    """LISTED again, from the rows of a plan's files: what a second look judges anew."""
    rows = stored(spark, parts, c.PLAN_ROWS, read).withColumnRenamed("uri", c.KEY)
    flag = F.when(F.col("reason") == "not an ordinary file", F.col("reason"))
    return rows.withColumn(c.FLAG, flag).select(*c.LISTED.names)


def left_out(spark: SparkSession, parts: Sequence[str], written: Sequence[str], read: ReadTask) -> pa.Array:
    """Names in files of LISTED rows that a plan's own files do not have, or have as live: what something needs."""
    listed = stored(spark, parts, c.LISTED, read).select(F.col(c.KEY).alias("uri"))
    if not written:
        return listed.toArrow()["uri"]
    judged = stored(spark, written, c.PLAN_ROWS, read).where(F.col("verdict") != str(Verdict.LIVE)).select("uri")
    return listed.join(judged, "uri", "left_anti").toArrow()["uri"]


def seen(spark: SparkSession, plans: Sequence[Sequence[str]], times: Mapping[str, int], read: ReadTask) -> DataFrame:
    """MARKS of the files that earlier plans called orphans, or would have but for another sighting.

    `plans` are the files of each, newest first; `times` says by table how many of the newest have to agree, and the
    most that any table asks for holds for one that is called otherwise now.
    """
    rows = _union(
        [
            stored(spark, parts, c.PLAN_ROWS, read)
            .where(F.col("verdict").isin("orphan", "unconfirmed"))
            .select("uri", "table", F.lit(age).alias("age"))
            for age, parts in enumerate(plans)
        ]
    )
    asked = local(spark, pa.table({"table": list(times), "times": pa.array(times.values(), pa.int32())}))
    rows = rows.join(F.broadcast(asked), "table", "left").fillna(max(times.values()), ["times"])
    counted = rows.where(F.col("age") < F.col("times")).groupBy("uri")
    often = counted.agg(F.countDistinct("age").alias("found"), F.max("times").alias("times"))
    return _marked(often.where(F.col("found") >= F.col("times")).withColumnRenamed("uri", c.KEY), c.MARK_SEEN)


def writer_files(spark: SparkSession, parts: Sequence[str], read: ReadTask, numbers: Mapping[str, int]) -> DataFrame:
    """MARKS of manifests that streaming writers have written and not committed, and of the files they name.

    No list records their length, so only their frames prove them whole; a damaged one refuses its table.
    """
    rows = stored(spark, parts, c.PLAN_ROWS, read).where(
        (F.col("reason") == STREAMING) & F.col("uri").endswith(".avro")
    )
    number = F.create_map(*(F.lit(part) for item in numbers.items() for part in item))
    unknown = F.lit(None).cast("bigint")
    manifests = rows.select(
        F.element_at(number, F.col("table")).cast("int").alias(c.TABLE),
        F.lit("iceberg").alias("format"),
        F.lit(True).alias("soft"),
        F.col("uri").alias("path"),
        unknown.alias("length"),
        unknown.alias("rows"),
        unknown.alias("live"),
        F.lit(0).alias("content"),
        F.lit(None).cast("string").alias(c.HOME),
    )
    return manifests.mapInArrow(read_manifests(replace(read, cache=None), soft_kinds=True), ddl(c.MARKS))


def pending(spark: SparkSession, uris: Iterator[list[str]]) -> DataFrame:
    """MARKS of the files that an expiry released."""
    keys = [uri for page in uris for uri in page]
    return _marked(local(spark, pa.table({c.KEY: pa.array(keys, pa.string())})), c.MARK_PENDING)


def inventory(spark: SparkSession, inventories: Sequence[tuple[str, Sequence[Root]]], read: ReadTask) -> DataFrame:
    """LISTED from inventories (path, size, modified) in place of LIST calls."""
    return local(spark, inventories_table(inventories)).mapInArrow(read_inventory(read.stores), ddl(c.LISTED))


def _marked(rows: DataFrame, mark: int) -> DataFrame:
    constant = {c.TABLE: 0, c.KIND: KIND_CODES[Kind.OTHER], c.MARK: mark}
    for name, value in constant.items():
        rows = rows.withColumn(name, F.lit(value).cast("int"))
    return rows.select(*c.MARKS.names)


def local(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A small table of the driver's as a DataFrame, one slice a core."""
    if table.num_rows:
        return spark.createDataFrame(table)
    return spark.createDataFrame([], ddl(table.schema))


def dealt(spark: SparkSession, manifests: pa.Table) -> DataFrame:
    """MANIFESTS of the driver's as a DataFrame, one slice a core, each with as many bytes to read as the others."""
    slices = spark.sparkContext.defaultParallelism
    heaviest = pc.sort_indices(manifests["length"], sort_keys=[("", "descending")]).to_numpy()
    order = np.concatenate([heaviest[start::slices] for start in range(slices)])
    return local(spark, manifests.take(pa.array(order)))


def _union(parts: list[DataFrame]) -> DataFrame:
    first, *rest = parts
    for part in rest:
        first = first.unionByName(part)
    return first
