"""Progress of a request as events in the ledger: each stage when it begins, and how far it is once a second at most."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lakewarden.ledger.requests import Requests
from lakewarden.model.errors import StateError

SECONDS_BETWEEN = 1.0


class Told:
    """A callback (stage, done, total), from any thread. An event that cannot be written stops no work."""

    def __init__(self, requests: Requests, request_id: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._requests = requests
        self._request_id = request_id
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._stage = ""
        self._at = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            now = self._monotonic()
            ended = 0 < total <= done
            if stage == self._stage and now - self._at < SECONDS_BETWEEN and not ended:
                return
            self._stage, self._at = stage, now
        self.event("progress", {"stage": stage, "done": done, "total": total})

    def event(self, name: str, detail: dict[str, object] | None = None) -> None:
        try:
            self._requests.event(self._request_id, name, detail)
        except StateError:
            return  # whoever watches sees one step less; what was done is in the run's own record
