"""What a runner does when nobody asks for anything: requests that are long over are forgotten, some at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakewarden.ledger.database import Ledger
from lakewarden.model.clock import Clock
from lakewarden.settings.sections import Service

# Only the last look at the fleet counts: its rows are in the fleet.
LOOKS_KEPT = timedelta(days=1)
EVERY_SECONDS = 3600.0
# Until it is tried again after the database did not let anything go.
AGAIN_SECONDS = 60.0


@dataclass
class QuietMoments:
    """Runners and not the schedule do this: a daemon without a schedule has requests too."""

    ledger: Ledger
    section: Service
    clock: Clock
    _not_before: float = 0.0

    def use(self) -> int:
        """Forget some, unless that was done within the hour. How many. Raises StateError."""
        if (began := self.clock.boot()) < self._not_before:
            return 0
        self._not_before = began + AGAIN_SECONDS
        now, days = self.clock.now(), timedelta(days=self.section.keep_requests_days)
        forgotten = self.ledger.requests.forget(now - days, now - LOOKS_KEPT, self.section.keep_requests)
        self._not_before = began if forgotten else began + EVERY_SECONDS
        return forgotten
