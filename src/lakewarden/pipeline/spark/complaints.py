"""What is wrong with a cluster, in words: which machine, which Python, and what would mend it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark import SparkContext

from lakewarden.model.errors import (
    DiskNotSharedError,
    LakewardenError,
    RootNotSeenError,
    SparkFailedError,
    StoreNotReachedError,
    WorkerLacksLakewardenError,
    WorkerPythonError,
)
from lakewarden.pipeline.spark.failure import cause_of
from lakewarden.pipeline.spark.probe import Asked, Told, own_version
from lakewarden.storage.scratch import is_temporary

# "Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.5 executor 2): java.io.IOException: Cannot run program …"
HOST = re.compile(r"\(TID \d+\) \((\S+) executor")
NO_PROGRAM = ("Cannot run program", "error=2,", "error=13,")
OTHER_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH\]?\s*(.*)")
NO_DAEMON = ("No module named", "reading the port number")


def failed(error: Exception, context: SparkContext) -> LakewardenError:
    """What a probe that did not come to its end says of the workers."""
    said = str(error)
    found = HOST.search(said)
    where = f"the executor on {found[1]}" if found else "an executor"
    if any(text in said for text in NO_PROGRAM):
        return WorkerPythonError(f"{where} could not start the Python {context.pythonExec!r}; nothing was done")
    if mismatch := OTHER_VERSION.search(said):
        return WorkerPythonError(
            f"{where} has another version of Python at {context.pythonExec!r} ({mismatch[1].strip()}); nothing was done"
        )
    if any(text in said for text in NO_DAEMON):
        module = context.getConf().get("spark.python.daemon.module", "pyspark.daemon")
        return WorkerLacksLakewardenError(
            f"the Python {context.pythonExec!r} of {where} could not start {module}; nothing was done"
        )
    return SparkFailedError(f"a first small job failed on {where} ({cause_of(error)}); nothing was done")


def judge(answers: Sequence[Told], asked: Asked) -> None:
    """Raise for the first thing that an executor lacks."""
    ours = own_version()
    for told in answers:
        who = f"the Python {told.python} on {told.host}"
        if told.version is not None and told.version != ours:
            raise WorkerLacksLakewardenError(
                f"{who} has lakewarden {told.version}, and this process {ours}; nothing was done"
            )
        if told.lacking is not None:
            raise WorkerLacksLakewardenError(f"{who} cannot import what tasks need ({told.lacking}); nothing was done")
        if written := [path for path in told.unseen if is_temporary(path.rpartition("/")[2])]:
            place = ", ".join(place for place in asked.written if place.startswith("file:"))
            raise DiskNotSharedError(
                f"the executor on {told.host} does not see what is written to {place} (looked for in "
                f"{written[0].rpartition('/')[0]}); nothing was done"
            )
        if told.unseen:
            raise RootNotSeenError(
                f"the executor on {told.host} does not see the directory {told.unseen[0]} of a table; nothing was done"
            )
        if told.unreachable:
            place, why = told.unreachable[0]
            raise StoreNotReachedError(f"the executor on {told.host} does not reach {place} ({why}); nothing was done")
