"""Spark's Python daemon with a sweep's imports done once: workers are forked from it, each ready at once.

Without it every worker of a cold start imports Arrow, pandas and the stores for itself, a second or more each.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module

from pyspark.daemon import manager

import lakewarden.pipeline.compare.compare
import lakewarden.pipeline.read.inventory
import lakewarden.pipeline.read.listing
import lakewarden.pipeline.read.manifests
import lakewarden.pipeline.read.strangers  # noqa: F401
from lakewarden.pipeline.read.avro.decode import fork_decoder
from lakewarden.pipeline.settled import settle
from lakewarden.pipeline.spark.session import MODULES

# What Arrow and the decoder load when they are first used.
LATE = ("lakewarden.pipeline.read.avro.child", "pyarrow.acero", "pyarrow.dataset")


def import_ahead() -> None:
    """What tasks will import. A module that cannot be imported is for the task to complain of that needs it.

    Standard output is Spark's: it reads there where the daemon listens.
    """
    for name in (*LATE, *filter(None, os.environ.get(MODULES, "").split(","))):
        with suppress(Exception), redirect_stdout(sys.stderr):
            import_module(name)


if __name__ == "__main__":
    import_ahead()
    settle()
    os.register_at_fork(after_in_child=fork_decoder)
    manager()  # type: ignore[no-untyped-call]
