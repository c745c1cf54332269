"""Work that may start Spark jobs, and what is told when Spark fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from lakewarden.model.errors import LakewardenError, SparkFailedError
from lakewarden.pipeline.spark.log_file import spark_failed

T = TypeVar("T")
JAVA_TRACE = re.compile(r"\s*(at \S+\(.*\)|\.\.\. \d+ more)$")


def in_spark(work: Callable[[], T]) -> T:
    """Do what may start Spark jobs. Raises LakewardenError alone: a trace of Java's helps nobody who wants a plan."""
    try:
        return work()
    except LakewardenError:
        raise
    except Exception as error:
        raise spark_failure(error) from error


def spark_failure(error: Exception) -> SparkFailedError:
    """What Spark named as the innermost cause."""
    told = [line.strip() for line in str(error).splitlines() if line.strip() and not JAVA_TRACE.match(line)]
    cause = told[-1].removeprefix("Caused by: ") if told else error
    return spark_failed(f"the sweep failed ({type(error).__name__}: {cause}); nothing was changed")
