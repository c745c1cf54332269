"""The comparison by a join in Spark, for lakes whose needed files are too many to carry: names against names.

The needed names come from the cache, into which every manifest has been read. Tables are a column; the number of stages
does not grow with the number of tables, and nothing that grows with the lake comes back to the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.model.roots import BY_NAME
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.answer import ANSWER
from lakewarden.pipeline.compare.holders import HOLDER, needed
from lakewarden.pipeline.compare.marks import certain_marks, manifests_once
from lakewarden.pipeline.compare.needs import Named, NamesKept
from lakewarden.pipeline.compare.plan_files import JudgeTask, judge_and_write
from lakewarden.pipeline.read.cache import KEY_ROWS, kept_table, read_whole
from lakewarden.pipeline.read.frames import in_tasks, local, spread, union
from lakewarden.pipeline.read.names import KIND_CODES, SOFT
from lakewarden.storage.store import SYMLINK
from lakewarden.storage.stores import Stores

FEW_ROOTS = 64


def marks(spark: SparkSession, named: Named, names: NamesKept, stores: Stores) -> DataFrame:
    """MARKS of every file that a holder needs, by the holder's mark; tables by their numbers."""
    holders = F.broadcast(local(spark, named.holders.rows).withColumnRenamed(c.MARK, "given"))
    entries = local(spark, manifests_once(named, names)).join(_names(spark, names, stores), ["kept", "path"])
    kind = F.col(c.KIND).bitwiseOR(F.when(F.col("soft"), SOFT).otherwise(0))
    counted = entries.groupBy(HOLDER, c.KEY).agg(
        F.min(kind).alias(c.KIND),
        F.sum(F.when(F.col("added"), 1).otherwise(0)).alias("adds"),
        F.sum(F.when(F.col("added"), 0).otherwise(1)).alias("deletes"),
    )
    stays = counted.join(holders, HOLDER).where(needed(F.col("hold"), F.col("adds"), F.col("deletes")))
    certain = local(spark, certain_marks(named)).withColumnRenamed(c.TABLE, HOLDER).drop(c.MARK).join(holders, HOLDER)
    return union([part.withColumn(c.MARK, F.col("given")).select(*c.MARKS.names) for part in (stays, certain)])


def _names(spark: SparkSession, names: NamesKept, stores: Stores) -> DataFrame:
    """KEY_ROWS of the cache. Never by Spark's own reader, to which a file that was emptied meanwhile is a file of no rows:
    no entry, nothing needed."""
    return in_tasks(spread(spark, kept_table(names.files), len(names.files)), read_whole(stores), KEY_ROWS)


def released(marked: DataFrame, copies: pa.Table, lengths: pa.Table, *, in_doubt: bool) -> DataFrame:
    """RELEASED (see `released.py`) of MARKS, COPIES and the lengths of manifests."""
    before = marked.where(F.col(c.MARK) == c.MARK_RELEASED).withColumn(c.KIND, F.col(c.KIND) % SOFT)
    files = before.groupBy(c.TABLE, c.KEY).agg(F.min(c.KIND).alias(c.KIND))
    live = marked.where(F.col(c.MARK) == c.MARK_LIVE).select(c.KEY).distinct().withColumn("live", F.lit(True))
    files = files.join(live, c.KEY, "left").withColumn("live", F.coalesce(F.col("live"), F.lit(in_doubt)))
    files = files.join(local(marked.sparkSession, copies), [c.TABLE, c.KEY], "left")
    return files.join(F.broadcast(local(marked.sparkSession, lengths)), c.KEY, "left")


def manifests_naming(spark: SparkSession, names: NamesKept, keys: Sequence[str], stores: Stores) -> list[str]:
    """The addresses of the manifests that name any of these files."""
    wanted = F.broadcast(local(spark, pa.table({c.KEY: pa.array(keys, pa.string())})))
    found = _names(spark, names, stores).join(wanted, c.KEY, "left_semi").select("path").distinct()
    return [str(row["path"]) for row in found.collect()]


def remembered(spark: SparkSession, uris: Iterable[str], mark: int) -> DataFrame:
    """MARKS of these addresses."""
    keys = local(spark, pa.table({c.KEY: pa.array(list(uris), pa.string())}))
    constant = {c.TABLE: 0, c.KIND: KIND_CODES[Kind.OTHER], c.MARK: mark}
    for name, value in constant.items():
        keys = keys.withColumn(name, F.lit(value).cast("int"))
    return keys.select(*c.MARKS.names)


def join_and_judge(
    listed: DataFrame, marked: DataFrame, task: JudgeTask, memories: DataFrame | None = None
) -> pa.Table:
    """ANSWER of LISTED candidates and MARKS of what is needed; PLAN_ROWS lie in the plan's directory.

    `memories` are MARKS by address.
    """
    found = joined(listed, marked, task, memories)
    live = (F.col(c.MARK).bitwiseAND(c.MARK_LIVE) != 0) & F.col(c.ROOT).isNotNull()
    # A live row is only counted, so its name does not have to travel any further; a link's does.
    live = live & ~F.col(c.FLAG).eqNullSafe(SYMLINK)
    counted = [
        F.when(live, None).otherwise(F.col(n)).alias(n) if n in (c.KEY, c.ETAG) else F.col(n) for n in c.JOINED.names
    ]
    return in_tasks(found.select(*counted), judge_and_write(task), ANSWER).toArrow()


def joined(listed: DataFrame, marked: DataFrame, task: JudgeTask, memories: DataFrame | None = None) -> DataFrame:
    """JOINED, every row with its name: LISTED candidates, and MARKS of what is needed, all marks of a file as one."""
    if memories is not None and not task.homes:
        marked, memories = marked.unionByName(memories), None
    if len(task.prefixes) <= FEW_ROOTS:
        # Most of a fleet's live files lie outside the few roots that a narrow selection sweeps.
        under = F.col(c.KEY).startswith(BY_NAME)
        for prefix in task.prefixes:
            under = under | F.col(c.KEY).startswith(prefix)
        marked = marked.where(under)
    known = marked.groupBy(c.KEY).agg(
        F.min(c.TABLE).alias(c.TABLE),
        F.max(c.TABLE).alias("other"),
        F.min(c.KIND).alias(c.KIND),
        F.bit_or(c.MARK).alias(c.MARK),
    )
    found = _by_name(listed, known, task.homes) if task.homes else listed.join(known, c.KEY, "full_outer")
    return found if memories is None else _with_memories(found, memories)


def _by_name(listed: DataFrame, known: DataFrame, homes: Mapping[int, str]) -> DataFrame:
    """The join where some roots' files are compared by bare name: the listed address stays the key."""
    table = pa.table({c.ROOT: pa.array(list(homes), pa.int32()), c.HOME: pa.array(list(homes.values()), pa.string())})
    listed = listed.join(F.broadcast(local(listed.sparkSession, table)), c.ROOT, "left")
    # No pattern: to Java's a dot is no line separator, and a partition's value may hold one (U+0085, U+2028).
    name = F.substring_index(F.col(c.KEY), "/", -1)
    listed = listed.withColumn("match", F.coalesce(F.concat(F.col(c.HOME), name), F.col(c.KEY))).drop(c.HOME)
    named = F.col(c.KEY).startswith(BY_NAME)
    found = listed.join(known.where(named).withColumnRenamed(c.KEY, "match"), "match", "full_outer")
    found = found.withColumn(c.KEY, F.coalesce(F.col(c.KEY), F.col("match"))).drop("match")
    # Then by address, also where files are compared by name: an Iceberg table may need files of a Paimon table.
    renamed = {name: f"{name} by address" for name in (c.TABLE, "other", c.KIND, c.MARK)}
    both = found.join(known.where(~named).withColumnsRenamed(renamed), c.KEY, "full_outer")
    either = {
        c.TABLE: F.least(c.TABLE, F.col(renamed[c.TABLE])),
        "other": F.greatest("other", F.col(renamed["other"])),
        c.KIND: F.least(c.KIND, F.col(renamed[c.KIND])),
        c.MARK: F.coalesce(c.MARK, F.lit(0)).bitwiseOR(F.coalesce(renamed[c.MARK], F.lit(0))),
    }
    return both.withColumns(either).drop(*renamed.values())


def _with_memories(joined: DataFrame, memories: DataFrame) -> DataFrame:
    """What is remembered of listed files, added by their address: a name that metadata needs is found elsewhere too."""
    known = memories.groupBy(c.KEY).agg(F.bit_or(c.MARK).alias("memory"))
    both = F.coalesce(c.MARK, F.lit(0)).bitwiseOR(F.coalesce("memory", F.lit(0)))
    return joined.join(known, c.KEY, "left").withColumn(c.MARK, both).drop("memory")
