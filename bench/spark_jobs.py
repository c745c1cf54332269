"""How long Spark was at work, as it remembers its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def newest_job(spark: SparkSession) -> int:
    """The number of the newest job, or -1 before the first."""
    jobs = _jobs(spark)
    return int(jobs.apply(0).jobId()) if jobs.size() else -1


def job_seconds(spark: SparkSession, after: int) -> list[float]:
    """How long each finished job took that began after the job of this number, in their order."""
    jobs = _jobs(spark)
    found = []
    for i in range(jobs.size()):
        job = jobs.apply(i)
        if job.jobId() <= after:
            break
        if job.submissionTime().isDefined() and job.completionTime().isDefined():
            took = job.completionTime().get().getTime() - job.submissionTime().get().getTime()
            found.append(took / 1000)
    return found[::-1]


def _jobs(spark: SparkSession) -> Any:
    """Newest first. The session keeps RETAINED of them."""
    return spark.sparkContext._jsc.sc().statusStore().jobsList(None)


RETAINED = 20_000
