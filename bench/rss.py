"""A plan in a process of its own, then what the driver still holds: its Python and its JVM, after collections."""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import psutil

import lakewarden


def main(config: str, out: str) -> None:
    warden = lakewarden.open(config)
    began = time.perf_counter()
    result = warden.plan("orphans", out=out)
    seconds = time.perf_counter() - began
    refused = [table.refusal for table in result.plan.tables if table.refusal]
    if refused:
        raise RuntimeError(f"refused: {refused[0]}")
    listed = sum(tally["files"] for tally in result.plan.totals()["verdicts"].values())
    del result
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    jvm: Any = session.sparkContext._jvm
    for _ in range(3):
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(1)
    runtime = jvm.java.lang.Runtime.getRuntime()
    process = psutil.Process()
    java = [child for child in process.children(recursive=True) if child.name() == "java"]
    print(
        json.dumps(
            {
                "listed": listed,
                "seconds": seconds,
                "python": process.memory_info().rss,
                "jvm": sum(child.memory_info().rss for child in java),
                "jvm heap in use": runtime.totalMemory() - runtime.freeMemory(),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
