"""Spark's classes, parsed once and kept: a JVM that maps this archive starts in half the time.

`python -m lakewarden.pipeline.spark.class_archive` makes it (make setup does). A JVM to which it does not fit ignores it.
"""

from __future__ import annotations

from typing import Any

from lakewarden.pipeline.spark.session import ARCHIVE, JVM_OPTIONS, spark_session


def make_archive() -> None:
    """Run a small job of the kind that a sweep runs, and let the JVM write down the classes it loaded."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    options = f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={ARCHIVE}"
    spark = spark_session("local[2]", {"spark.driver.extraJavaOptions": options}, "class archive")
    rows = spark.range(4).selectExpr("cast(id as int) id", "cast(id as string) name")
    rows.groupBy("id", "name").agg({"id": "min"}).mapInArrow(
        lambda batches: batches, "id int, name string, m int"
    ).toArrow()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=120)


if __name__ == "__main__":
    make_archive()
