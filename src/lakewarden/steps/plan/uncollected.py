"""Python's collector of cycles, at rest while a plan is made.

A plan of a thousand tables makes a million small values that all stay until it is written, and hardly a cycle. Every time
their number has grown by a quarter the collector looks through all of them, and through whatever the process has imported:
a third of a plan's time in this process, to find nothing. What it leaves lying is picked up when the plan is made.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_plans = 0
_before = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Several plans at a time count as one; whoever had switched the collector off finds it off."""
    global _plans, _before
    with _lock:
        if not _plans:
            _before = gc.isenabled()
            gc.disable()
        _plans += 1
    try:
        yield
    finally:
        with _lock:
            _plans -= 1
            if not _plans and _before:
                gc.enable()
