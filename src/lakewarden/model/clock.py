"""Time as a part that is passed in, so that tests can turn it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, aware, UTC. For people and for ages, never for deadlines."""
        ...

    def boot(self) -> float:
        """Seconds since boot, counting suspend. For deadlines: it never jumps."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot(self) -> float:
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime(clock)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
