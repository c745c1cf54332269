"""A budget of bytes a second, shared by the threads of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from lakewarden.model.clock import Clock

MEGABYTE = 1_000_000


class Bandwidth:
    """Whoever moves bytes asks first, and waits until those before have had their time."""

    def __init__(self, megabytes_per_second: float | None, clock: Clock) -> None:
        self._rate = None if megabytes_per_second is None else megabytes_per_second * MEGABYTE
        self._clock = clock
        self._turn = threading.Lock()
        self._free_at = 0.0

    @staticmethod
    def strictest(limits: Iterable[float | None], clock: Clock) -> Bandwidth:
        """The smallest of several tables' limits."""
        return Bandwidth(min((limit for limit in limits if limit is not None), default=None), clock)

    def spend(self, count: int) -> None:
        if self._rate is None:
            return
        with self._turn:
            now = self._clock.boot()
            start = max(self._free_at, now)
            self._free_at = start + count / self._rate
        if start > now:
            self._clock.sleep(start - now)
