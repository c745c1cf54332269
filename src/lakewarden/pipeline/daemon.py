"""Spark's Python daemon with a sweep's imports done once: workers are forked from it, each ready at once.

Without it every worker of a cold start imports Arrow, pandas and the stores for itself, a second or more each.
"""

from __future__ import annotations

import sys
from zipimport import zipimporter

from pyspark.daemon import manager

import lakewarden.pipeline.inventory
import lakewarden.pipeline.listing
import lakewarden.pipeline.probe
import lakewarden.pipeline.reading
import lakewarden.pipeline.settling
import lakewarden.pipeline.strangers  # noqa: F401


class Archive(zipimporter):
    """Modules in an archive, whose table of contents is read once.

    Spark has Python forget before every task what it knows of the places on its path, its own archive and the jars of
    the session among them. Reading them all again takes 0.3 s of every task, and an archive in use does not change.
    """

    def invalidate_caches(self) -> None:
        """Nothing to forget."""


def read_archives_once() -> None:
    """For this process, and for the workers that it forks."""
    sys.path_hooks[:] = [Archive if hook is zipimporter else hook for hook in sys.path_hooks]
    for path in [path for path, finder in sys.path_importer_cache.items() if type(finder) is zipimporter]:
        del sys.path_importer_cache[path]


if __name__ == "__main__":
    read_archives_once()
    manager()  # type: ignore[no-untyped-call]
