"""Time that stands still, so that every printed moment is the same in each run of the suite."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.model.clock import SystemClock

# Before any day on which the suite runs: files that a command writes are then always younger than everything else.
NOW = datetime(2026, 1, 15, 6, 0, tzinfo=UTC)


class StandingClock(SystemClock):
    """Says `at` until it is moved. What has `passed` has passed for the stores too (tests/conftest.py)."""

    def __init__(self) -> None:
        self.at = NOW
        self.slept = 0.0
        """Seconds by which deadlines are nearer than they were: a process that was suspended."""

    def now(self) -> datetime:
        return self.at

    def boot(self) -> float:
        return super().boot() + self.slept

    @property
    def passed(self) -> timedelta:
        return self.at - datetime.now(UTC)
