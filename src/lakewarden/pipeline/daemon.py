"""Spark's Python daemon with a sweep's imports done once: workers are forked from it, each ready at once.

Without it every worker of a cold start imports Arrow, pandas and the stores for itself, a second or more each.
"""

from __future__ import annotations

from pyspark.daemon import manager

import lakewarden.pipeline.inventory
import lakewarden.pipeline.listing
import lakewarden.pipeline.probe
import lakewarden.pipeline.reading
import lakewarden.pipeline.strangers  # noqa: F401

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
