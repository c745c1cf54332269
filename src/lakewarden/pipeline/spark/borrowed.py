"""Somebody else's Spark session: used as it is, and left as it was.

Settings of ours are made on a session derived from the one that was handed in. Both share the context, its executors and
its jars; what SQL is told on one of them the other does not hear of. The context itself (its log level, the Python of its
workers, their environment) is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.core.rdd import RDD
from pyspark.sql import SparkSession

from lakewarden.model.errors import ForeignSessionError, SparkFailedError
from lakewarden.pipeline.masters import is_local


def derived(session: SparkSession, settings: Mapping[str, str], conf: Mapping[str, str]) -> SparkSession:
    """A session of ours beside the one that was handed in: with these settings, and what of `conf` a session can be told.

    Raises SparkFailedError for a session that was stopped.
    """
    check_running(session)
    with _as_it_was():
        ours = session.newSession()
    for key, value in settings.items():
        ours.conf.set(key, value)
    for key, value in conf.items():
        if ours.conf.isModifiable(key):
            ours.conf.set(key, value)
    return ours


def check_running(session: SparkSession) -> None:
    """Raise SparkFailedError for a session whose context was stopped."""
    if session.sparkContext._jsc is None:
        raise SparkFailedError(
            "the Spark session that was handed in is stopped; nothing was done",
            hint="Start a session and hand that in: lakewarden.open(config, spark=session).",
        )


def refuse_foreign(ours: SparkContext | None, master: str) -> None:
    """Raise ForeignSessionError where Spark runs in this process that somebody else started, or that runs elsewhere."""
    found = SparkContext._active_spark_context
    if found is None or found._jsc is None:
        return
    if found is not ours:
        raise ForeignSessionError(
            f"this process has a Spark session already (application {found.appName!r} on {found.master}), which "
            "Lakewarden did not start and was not handed; nothing was done, and the session was not touched"
        )
    if found.master != master and not (is_local(found.master) and is_local(master)):
        raise ForeignSessionError(
            f"Lakewarden runs Spark on {found.master} in this process, and this configuration asks for {master}; a "
            "process has one Spark at a time; nothing was done",
            hint="Plan with this configuration in a process of its own.",
        )


@contextmanager
def _as_it_was() -> Iterator[None]:
    """A new session gives every RDD its own `toDF`: the user's RDDs would become DataFrames of ours."""
    known: Any = RDD
    before = known.__dict__.get("toDF")
    try:
        yield
    finally:
        if before is not None:
            known.toDF = before
