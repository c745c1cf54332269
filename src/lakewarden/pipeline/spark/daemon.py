"""Spark's Python daemon with a sweep's imports done once: workers are forked from it, each ready at once.

Without it every worker of a cold start imports Arrow, pandas and the stores for itself, a second or more each.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from zipimport import ZipImportError, zipimporter

from pyspark.daemon import manager

import lakewarden.pipeline.compare.compare
import lakewarden.pipeline.read.inventory
import lakewarden.pipeline.read.listing
import lakewarden.pipeline.read.manifests
import lakewarden.pipeline.read.strangers  # noqa: F401
from lakewarden.pipeline.read.avro.decode import fork_decoder
from lakewarden.pipeline.spark.session import MODULES

# What Arrow and the decoder load when they are first used.
LATE = ("lakewarden.pipeline.read.avro.child", "pyarrow.acero", "pyarrow.dataset")


class Archive(zipimporter):
    """Modules in an archive, whose table of contents is read once.

    Spark has Python forget before every task what it knows of the places on its path, its own archive and the jars of
    the session among them. Reading them all again takes 0.3 s of every task, and an archive in use does not change.
    A jar holds no Python of ours: it is never looked into.
    """

    def __init__(self, path: str) -> None:
        if path.endswith(".jar"):
            raise ZipImportError(f"no modules in {path}", path=path)
        super().__init__(path)

    def invalidate_caches(self) -> None:
        """Nothing to forget."""


def read_archives_once() -> None:
    """For this process, and for the workers that it forks."""
    sys.path_hooks[:] = [Archive if hook is zipimporter else hook for hook in sys.path_hooks]
    for path in [path for path, finder in sys.path_importer_cache.items() if type(finder) is zipimporter]:
        del sys.path_importer_cache[path]


def import_ahead() -> None:
    """What tasks will import. A module that cannot be imported is for the task to complain of that needs it.

    Standard output is Spark's: it reads there where the daemon listens.
    """
    for name in (*LATE, *filter(None, os.environ.get(MODULES, "").split(","))):
        with suppress(Exception), redirect_stdout(sys.stderr):
            import_module(name)


def settle() -> None:
    """Take what is imported by now out of the collector's sight.

    After every task a worker has Python collect its garbage, and without this the collector looks through all modules:
    0.05 s a task, while the next one waits.
    """
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    read_archives_once()
    import_ahead()
    settle()
    os.register_at_fork(after_in_child=fork_decoder)
    manager()  # type: ignore[no-untyped-call]
