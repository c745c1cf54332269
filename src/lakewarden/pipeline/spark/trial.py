"""A job of a few rows that needs what every plan needs: a JVM, a Python worker, and Arrow between them."""

from __future__ import annotations

from pyspark.errors import PySparkException

from lakewarden.model.errors import SparkFailedError
from lakewarden.pipeline.spark.session import SparkSession

ROWS = 8


def ran(session: SparkSession) -> str:
    """Spark's version, once it has run the job. Raises SparkFailedError."""
    try:
        rows = session.range(ROWS).mapInArrow(lambda batches: batches, "id long").count()
    except PySparkException as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SparkFailedError(f"Spark started, and did not run a job of {ROWS} rows ({first})") from error
    if rows != ROWS:
        raise SparkFailedError(f"Spark ran a job of {ROWS} rows and answered with {rows}")
    return session.version
