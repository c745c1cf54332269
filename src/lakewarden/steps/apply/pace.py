"""How fast files go: batch size, concurrency and pauses of the strictest table, slower when the store says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.ledger.batch_outcomes import Stretch
from lakewarden.model.clock import Clock
from lakewarden.model.policy import DeleteMode, mode_of
from lakewarden.model.ports import FileOutcome
from lakewarden.model.verdict import Outcome

THROTTLED = ("SlowDown", "Throttl", "503", "TooManyRequests", "429")
LONGEST_PAUSE = 30.0
SHORTEST_PAUSE = 0.05


@dataclass
class Pace:
    """The pause between two batches grows while the store throttles and shrinks back when it stops."""

    batch_size: int
    concurrency: int
    rest: float
    mode: DeleteMode
    pause: float = 0.0

    @staticmethod
    def of(policies: Iterable[Mapping[str, Any]]) -> Pace:
        """The strictest of several tables' policies."""
        chosen = list(policies)
        return Pace(
            batch_size=min((p["batch_size"] for p in chosen), default=1000),
            concurrency=min((p["max_concurrent_deletions"] for p in chosen), default=1),
            rest=max((p["rate_limit_ms"] for p in chosen), default=0) / 1000,
            mode=mode_of(chosen),
        )

    def learn(self, outcomes: Sequence[FileOutcome | Stretch]) -> None:
        failed = [o for o in outcomes if o.outcome == Outcome.FAILED]
        if any(word in f"{o.code} {o.message}" for o in failed for word in THROTTLED):
            self.pause = min(LONGEST_PAUSE, max(0.5, self.pause * 2))
        else:
            self.pause = self.pause / 2 if self.pause > SHORTEST_PAUSE else 0.0

    def wait(self, clock: Clock) -> None:
        if self.rest + self.pause > 0:
            clock.sleep(self.rest + self.pause)
