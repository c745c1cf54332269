"""A block of a test that must end in time, and must not take more memory of Python's than it was given."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

MB = 1 << 20


@contextmanager
def within(seconds: float, megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    began = time.monotonic()
    try:
        yield
        took, peak = time.monotonic() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert took < seconds, f"took {took:.1f} s"
    assert peak < megabytes * MB, f"took {peak / MB:.0f} MB"
