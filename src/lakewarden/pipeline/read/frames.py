"""Small tables of the driver's, and files of ours, as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.model.verdict import Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.columns import ddl
from lakewarden.pipeline.read.inventory import read_parquet
from lakewarden.storage.stores import Stores


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


def stored(spark: SparkSession, uris: Sequence[str], schema: pa.Schema, stores: Stores) -> DataFrame:
    """Rows of Parquet files of ours. Spark reads local ones itself; others go through the stores, which have the keys."""
    if not uris:
        return spark.createDataFrame([], ddl(schema))
    if all(uri.startswith("file://") for uri in uris) and str(spark.sparkContext.master).startswith("local"):
        return spark.read.schema(ddl(schema)).parquet(*(uri.replace("%", "%25") for uri in uris)).select(*schema.names)
    files = local(spark, pa.table({"uri": pa.array(uris, pa.string())}))
    return files.mapInArrow(read_parquet(stores, schema), ddl(schema))


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
