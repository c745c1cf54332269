"""Which session is the active one, and where a session's tasks run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

SHUFFLE = "spark.sql.shuffle.partitions"
# Set on a session of ours whose user did not say SHUFFLE: the least number of partitions.
BY_WORK = "spark.lakewarden.partitions"


def is_local(master: str | None) -> bool:
    """Whether tasks run on this very machine, in the JVM of the driver."""
    return master is not None and (master == "local" or master.startswith("local["))


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
