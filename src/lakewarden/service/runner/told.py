"""Progress of a request as events in the ledger: each stage when it begins and ends, and how far it is now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lakewarden.ledger.requests import Requests
from lakewarden.model.errors import StateError

SECONDS_BETWEEN = 1.0
# Whoever watches an hour's work needs no word every second: so many in the time that has passed, and a few thousand a day.
SHARE_OF_TIME = 1 / 600


class Told:
    """A callback (stage, done, total), from any thread. An event that cannot be written stops no work."""

    def __init__(self, requests: Requests, request_id: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._requests = requests
        self._request_id = request_id
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._began = monotonic()
        self._told: dict[str, tuple[float, bool]] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            if not self._is_news(stage, ended=0 < total <= done):
                return
        self.event("progress", {"stage": stage, "done": done, "total": total})

    def _is_news(self, stage: str, ended: bool) -> bool:
        """Whether this is written: each event is a durable write, and two threads may tell of two stages in turns, or of a
        stage that ends for each of ten thousand tables."""
        now = self._monotonic()
        before, had_ended = self._told.get(stage, (None, False))
        pause = max(SECONDS_BETWEEN, (now - self._began) * SHARE_OF_TIME)
        if before is not None and now - before < pause and (had_ended or not ended):
            return False
        self._told[stage] = (now, ended)
        return True

    def event(self, name: str, detail: dict[str, object] | None = None) -> None:
        try:
            self._requests.event(self._request_id, name, detail)
        except StateError:
            return  # whoever watches sees one step less; what was done is in the run's own record
