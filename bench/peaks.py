"""The most memory that a piece of work held: the Python processes beside this one, and the heap of the JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS, HEAP = "peak MB, Python tasks", "peak MB, JVM heap"
MEGABYTE = 1 << 20
_SECONDS_BETWEEN_LOOKS = 0.2


@contextmanager
def peaks(spark: SparkSession) -> Iterator[dict[str, float]]:
    """Megabytes by kind, known at the end. Of a process it is what it shares with no other; of the JVM what its heap held,
    garbage too."""
    found: dict[str, float] = {TASKS: 0.0}
    pools = _pools(spark)
    for pool in pools:
        pool.resetPeakUsage()
    done = threading.Event()

    def look() -> None:
        while not done.wait(_SECONDS_BETWEEN_LOOKS):
            held = sum(_own(child) for child in psutil.Process().children(recursive=True))
            found[TASKS] = max(found[TASKS], held / MEGABYTE)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield found
    finally:
        done.set()
        looking.join()
        found[HEAP] = sum(int(pool.getPeakUsage().getUsed()) for pool in pools) / MEGABYTE


def _own(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss) if "python" in process.name() else 0
    except psutil.Error:
        return 0  # it ended meanwhile


def _pools(spark: SparkSession) -> list[Any]:
    jvm: Any = spark._jvm
    heap = jvm.java.lang.management.MemoryType.HEAP
    found = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return [pool for pool in found if pool.getType().equals(heap)]
