"""Which session is the active one, and what a session of ours is told of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

SHUFFLE = "spark.sql.shuffle.partitions"
# Set on a session of ours whose user did not say SHUFFLE: the least number of partitions.
BY_WORK = "spark.lakewarden.partitions"


@contextmanager
def active_as_before(session: SparkSession) -> Iterator[None]:
    """Whatever is done meanwhile: the active session of this thread, by which PySpark finds one, stays whose it was."""
    known: Any = SparkSession
    jvm: Any = known._get_j_spark_session_class(session._jvm)
    python, java = known._activeSession, jvm.getActiveSession()
    try:
        yield
    finally:
        known._activeSession = python
        if java.isDefined():
            jvm.setActiveSession(java.get())
        else:
            jvm.clearActiveSession()
