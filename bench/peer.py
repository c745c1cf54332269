"""The other side: Iceberg's `remove_orphan_files(dry_run)` in the same Spark session, under Spark's own settings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lakes import Lake
from bench.measure import Sample
from bench.s3 import Server
from bench.spark_jobs import RETAINED, job_seconds, newest_job
from lakewarden.pipeline.spark.session import spark_session
from tests.support.spark import CARRIED_BY_SPARK, JARS, add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRACE = timedelta(hours=168)
PARTITIONS = ("4", "200")


def open_session(scratch: Path) -> SparkSession:
    """The one session of both sides: two cores, the Iceberg and Paimon runtimes, and memory enough for a million files."""
    conf = {
        "spark.jars.packages": ",".join(JARS),
        "spark.jars.excludes": ",".join(CARRIED_BY_SPARK),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.driver.memory": "4g",
        # The JVM as it comes: ours asks for the quick compiler, which would slow the peer down once it is warm.
        "spark.driver.extraJavaOptions": "-XX:+UseG1GC",
        "spark.ui.retainedJobs": str(RETAINED),
        "spark.local.dir": str(scratch / "spill"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    return spark_session("local[2]", conf, "lakewarden bench", logs=scratch / "logs")


@dataclass(frozen=True, slots=True)
class Peer:
    """One lake through Iceberg's procedure. `partitions` is the number for shuffles that suits it better."""

    spark: SparkSession
    lake: Lake
    partitions: str = "200"
    prefix_listing: bool = False

    @staticmethod
    def over(spark: SparkSession, lake: Lake, server: Server | None = None) -> Peer:
        add_sqlite_catalog(spark, lake.name, lake.database, lake.warehouse, server)
        if server is not None:
            # The procedure refuses files younger than a day otherwise, and a bucket has no others. Set past the
            # front door, which lets nobody change it; only the procedure asks the session for it.
            spark._jsparkSession.sessionState().conf().setConfString("spark.testing", "true")
        return Peer(spark, lake, prefix_listing=server is not None)

    def tuned(self, tables: Sequence[str]) -> Peer:
        """The faster of its settings, each tried on these tables after a run that warms it up."""
        candidates = [replace(self, partitions=number) for number in PARTITIONS]
        self.orphans(tables)
        return min(candidates, key=lambda peer: peer.orphans(tables)[0].seconds)

    def orphans(self, tables: Sequence[str]) -> tuple[Sample, set[str]]:
        """Call it for each of the tables, one after the other: it knows one table a call."""
        found: set[str] = set()
        with spark_defaults(self.spark, self.partitions):
            newest = newest_job(self.spark)
            began = time.perf_counter()
            for table in tables:
                found.update(row[0] for row in self.spark.sql(self._call(table)).collect())
            seconds = time.perf_counter() - began
            busy = sum(job_seconds(self.spark, newest))
        stages = {"Spark jobs": min(busy, seconds), "between jobs": max(0.0, seconds - busy)}
        return Sample(seconds, stages), {canonical(name) for name in found}

    def _call(self, table: str) -> str:
        grace = timedelta() if self.lake.warehouse.startswith("s3://") else GRACE
        older = f"{datetime.now(UTC) - grace:%Y-%m-%d %H:%M:%S.%f}"
        listing = ", prefix_listing => true" if self.prefix_listing else ""
        return (
            f"CALL {self.lake.name}.system.remove_orphan_files(table => '{table}', "
            f"older_than => TIMESTAMP '{older}', dry_run => true{listing})"
        )


@contextmanager
def spark_defaults(spark: SparkSession, partitions: str) -> Iterator[None]:
    """Spark as it comes, adaptive execution and all; what our own plans set on the session is put back after."""
    settings = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": partitions,
    }
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def canonical(name: str) -> str:
    """`file:/x` and `/x` as `file:///x`."""
    if name.startswith("/"):
        return f"file://{name}"
    return f"file:///{name.removeprefix('file:').lstrip('/')}" if name.startswith("file:") else name
