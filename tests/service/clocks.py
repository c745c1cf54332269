"""A clock that passes for deadlines too, for tests that let a runner fall silent."""

from __future__ import annotations

from tests.support.deployments import TurnedClock


class PassedClock(TurnedClock):
    """What has `passed` has passed for whoever counts seconds; `by` is only what a wrong clock on the wall says."""

    def boot(self) -> float:
        return super().boot() + self.passed.total_seconds()
