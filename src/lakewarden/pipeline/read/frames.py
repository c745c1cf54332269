"""Small tables of the driver's, and files of ours, as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.model.verdict import Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.active import BY_WORK, SHUFFLE, active_as_before
from lakewarden.pipeline.columns import ddl
from lakewarden.pipeline.masters import is_local
from lakewarden.pipeline.read.inventory import read_parquet
from lakewarden.pipeline.settled import Batches, settling
from lakewarden.storage.stores import Stores

# On a cluster: what is worth a task. A task costs some ten milliseconds, and its results a message.
MOST_TASKS = 1000
LISTS_A_TASK = 16
SHARDS_A_TASK = 4
MANIFESTS_A_TASK = 64
BYTES_A_TASK = 8 << 20
ROWS_A_PARTITION = 100_000
# How many slices a table of the driver's has; Spark asks when the table is used.
SLICES = "spark.sql.leafNodeDefaultParallelism"


def local(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A small table of the driver's as a DataFrame, one slice a core."""
    # Making a DataFrame makes its session the active one, and the active one may be somebody else's.
    with active_as_before(spark):
        return spark.createDataFrame(table) if table.num_rows else spark.createDataFrame([], ddl(table.schema))


def spread(spark: SparkSession, table: pa.Table, tasks: int) -> DataFrame:
    """A small table of the driver's, whose rows are work for so many tasks.

    Within this machine its cores are known, and each has a slice. A cluster may have no executor yet: those that come are
    as many as there is work for, not as many as there were when the session began. The driver cuts the slices: a shuffle
    would be lost with the executor that holds it.
    """
    if not is_local(spark.sparkContext.master):
        spark.conf.set(SLICES, str(_tasks(spark, table.num_rows, tasks)))
    return local(spark, table)


def in_tasks(rows: DataFrame, step: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
    """What a step makes of the rows, on whichever machine they are."""
    return rows.mapInArrow(settling(step), ddl(schema))


def dealt(spark: SparkSession, manifests: pa.Table) -> DataFrame:
    """MANIFESTS of the driver's as a DataFrame, each slice with as many bytes to read as the others."""
    size = pc.sum(manifests["length"]).as_py() or 0
    tasks = max(size // BYTES_A_TASK, manifests.num_rows // MANIFESTS_A_TASK)
    here = is_local(spark.sparkContext.master)
    slices = spark.sparkContext.defaultParallelism if here else _tasks(spark, manifests.num_rows, tasks)
    heaviest = pc.sort_indices(manifests["length"], sort_keys=[("", "descending")]).to_numpy()
    order = np.concatenate([heaviest[start::slices] for start in range(slices)])
    return spread(spark, manifests.take(pa.array(order)), slices)


def _tasks(spark: SparkSession, rows: int, wanted: int) -> int:
    """Not fewer than there are cores by now, nor more than rows."""
    return max(1, min(rows, MOST_TASKS, max(wanted, spark.sparkContext.defaultParallelism)))


def shuffled_by_work(spark: SparkSession, rows: int) -> None:
    """Let joins over so many rows be cut small enough, however few executors there are by now; unless the user said how."""
    least = spark.conf.get(BY_WORK, None)
    if least is not None and not is_local(spark.sparkContext.master):
        spark.conf.set(SHUFFLE, str(max(int(least), min(MOST_TASKS, rows // ROWS_A_PARTITION))))


def stored(spark: SparkSession, uris: Sequence[str], schema: pa.Schema, stores: Stores) -> DataFrame:
    """Rows of Parquet files of ours. Spark reads local ones itself; others go through the stores, which have the keys."""
    if not uris:
        return local(spark, schema.empty_table())
    if all(uri.startswith("file://") for uri in uris) and is_local(spark.sparkContext.master):
        return spark.read.schema(ddl(schema)).parquet(*(uri.replace("%", "%25") for uri in uris)).select(*schema.names)
    files = spread(spark, pa.table({"uri": pa.array(uris, pa.string())}), len(uris))
    return in_tasks(files, read_parquet(stores, schema), schema)


def union(parts: Sequence[DataFrame]) -> DataFrame:
    first, *rest = parts
    for part in rest:
        first = first.unionByName(part)
    return first


def left_out(spark: SparkSession, listed: Sequence[str], judged: Sequence[str], stores: Stores) -> pa.ChunkedArray:
    """Names in files of LISTED rows that a plan's own files do not have, or have as live: what something needs."""
    names = stored(spark, listed, c.LISTED, stores).select(F.col(c.KEY).alias("uri"))
    free = stored(spark, judged, c.PLAN_ROWS, stores).where(F.col("verdict") != str(Verdict.LIVE)).select("uri")
    return names.join(free, "uri", "left_anti").toArrow()["uri"]
