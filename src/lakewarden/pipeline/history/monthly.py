"""The Spark job behind the monthly summary: the archive's rows, summed by table, month, writer, operation and trigger."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.pipeline.columns import ddl
from lakewarden.pipeline.history.rows import noted, packed, reading
from lakewarden.pipeline.read.frames import in_tasks, spread
from lakewarden.pipeline.settled import Batches
from lakewarden.storage.stores import Stores

READ = ("uuid", "identifier", "snapshot_id", "committed_ms", "writer_id", "operation", "trigger_type",
        "added_rows", "added_bytes", "digest")  # fmt: skip
TO_SUM = pa.schema([*noted(READ), ("file", pa.string()), ("month", pa.string())])
KEYS = ("uuid", "month", "writer_id", "operation", "trigger_type")
# One row for a run of routine snapshots. `rows` and `bytes` are of those snapshots that say how much they added; null where
# that is beyond 64 bits, because a summary may say anything.
LINES = pa.schema(
    [
        *((name, pa.string()) for name in KEYS),
        ("identifier", pa.string()),
        ("first_id", pa.int64()),
        ("first_ms", pa.int64()),
        ("last_id", pa.int64()),
        ("last_ms", pa.int64()),
        ("snapshots", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("detail", pa.list_(pa.string())),
    ]
)
# One row a month that was written.
WRITTEN = pa.schema([("month", pa.string()), ("uri", pa.string()), ("sha256", pa.string()),
                     ("lines", pa.int64()), ("snapshots", pa.int64())])  # fmt: skip


def summed(rows: DataFrame) -> DataFrame:
    """TO_SUM in, LINES out. Each snapshot counts once, in however many files it is.

    A row with a note becomes a line of the month "", whose `identifier` is the note.
    """
    once = (
        rows.withColumn("identifier", F.coalesce("note", "identifier"))
        .groupBy("uuid", "snapshot_id", "digest", *(key for key in KEYS if key != "uuid"), "committed_ms")
        .agg(
            F.max("identifier").alias("identifier"),
            F.max("added_rows").alias("added_rows"),
            F.max("added_bytes").alias("added_bytes"),
            F.min("file").alias("file"),
        )
    )
    when = F.struct("committed_ms", "snapshot_id", "identifier")
    lines = once.groupBy(*KEYS).agg(
        F.min(when).alias("first"),
        F.max(when).alias("last"),
        F.count("*").alias("snapshots"),
        F.try_sum(F.coalesce("added_rows", F.lit(0))).alias("rows"),
        F.try_sum(F.coalesce("added_bytes", F.lit(0))).alias("bytes"),
        F.sort_array(F.collect_set("file")).alias("detail"),
    )
    return lines.select(
        *KEYS,
        F.col("last.identifier").alias("identifier"),
        F.col("first.snapshot_id").alias("first_id"),
        F.col("first.committed_ms").alias("first_ms"),
        F.col("last.snapshot_id").alias("last_id"),
        F.col("last.committed_ms").alias("last_ms"),
        "snapshots",
        "rows",
        "bytes",
        "detail",
    )


def write_months(spark: SparkSession, files: pa.Table, months: Sequence[str], place: str, stores: Stores) -> pa.Table:
    """WRITTEN: the summaries of these months, each in a file of its own below `place`. FILES in.

    A file of the archive that is not whole gives a row of the month "", whose `uri` says what is wrong with it.
    """
    rows = in_tasks(spread(spark, files, files.num_rows), to_sum(stores), TO_SUM)
    wanted = summed(rows).where(F.col("month").isin("", *months))
    return wanted.groupBy("month").applyInArrow(_writing(place, stores), ddl(WRITTEN)).toArrow()


def to_sum(stores: Stores) -> Callable[[Batches], Batches]:
    """FILES in, TO_SUM out. Months are those of UTC, whatever zone the session is in."""
    read = reading(stores, READ)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number, uri in enumerate(batch["uri"].to_pylist()):
                for found in read([batch.slice(number, 1)]):
                    names = pa.array([uri] * found.num_rows, pa.string())
                    months = pc.strftime(found["committed_ms"].cast(pa.timestamp("ms")), format="%Y-%m")
                    columns = [*found.columns, names, pc.fill_null(months, "")]
                    yield pa.RecordBatch.from_arrays(columns, schema=TO_SUM)

    return run


def _writing(place: str, stores: Stores) -> Callable[[pa.Table], pa.Table]:
    def write(lines: pa.Table) -> pa.Table:
        lines = lines.select(LINES.names).cast(LINES)
        month = lines["month"][0].as_py()
        if not month:
            found = {"month": "", "uri": lines["identifier"][0].as_py(), "sha256": "", "lines": 0, "snapshots": 0}
            return pa.Table.from_pylist([found], schema=WRITTEN)
        data = packed(lines.sort_by([(key, "ascending") for key in KEYS]))
        digest = hashlib.sha256(data).hexdigest()
        uri = f"{place}{month}/{digest}.parquet"
        if not stores.create(uri, data) and hashlib.sha256(stores.get(uri)).hexdigest() != digest:
            stores.put(uri, data)  # what a write that broke off has left there
        made = {"month": month, "uri": uri, "sha256": digest, "lines": lines.num_rows,
                "snapshots": sum(lines["snapshots"].to_pylist())}  # fmt: skip
        return pa.Table.from_pylist([made], schema=WRITTEN)

    return write
