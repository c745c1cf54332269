"""Work that may start Spark jobs, and what is told when Spark fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from lakewarden.model.errors import LakewardenError, SparkFailedError
from lakewarden.pipeline.spark.failure import cause_of
from lakewarden.pipeline.spark.log_file import spark_failed
from lakewarden.pipeline.spark.work import Starting
from lakewarden.storage.stores import Stores

if TYPE_CHECKING:
    from lakewarden.pipeline.spark.session import SparkSession

T = TypeVar("T")


def in_spark(work: Callable[[], T]) -> T:
    """Do what may start Spark jobs. Raises LakewardenError alone: a trace of Java's helps nobody who wants a plan."""
    try:
        return work()
    except LakewardenError:
        raise
    except Exception as error:
        raise spark_failure(error) from error


def seeing(session: Starting, stores: Stores, places: Iterable[str]) -> Callable[[], SparkSession]:
    """How to come by the session, once its executors were found to see these directories and to reach these buckets."""
    # Whoever compares comes by the session several times, with one question.
    read = tuple(sorted(places))

    def looked_at() -> SparkSession:
        from lakewarden.pipeline.spark.preflight import Cluster
        from lakewarden.pipeline.spark.probe import Asked

        started = session.result()
        Cluster(started).check(stores, Asked(read=read))
        return started

    return looked_at


def spark_failure(error: Exception) -> SparkFailedError:
    """What Spark named as the innermost cause."""
    return spark_failed(f"the sweep failed ({cause_of(error)}); nothing was changed")
