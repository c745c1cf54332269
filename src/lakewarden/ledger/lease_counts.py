"""How often leases were taken, refused, lost and cleared away by this process: what the lease metrics are made of."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

ACQUIRED, ENDED, OVERTAKEN, REFUSED, LOST, SCAVENGED, CORRUPT = (
    "acquired", "ended", "overtaken", "refused", "lost", "scavenged", "corrupt"
)  # fmt: skip


class LeaseCounts:
    """Counts since the process began. Threads may count side by side.

    `overtaken` are writes before which somebody else's came, `refused` acquisitions of a lease that somebody holds.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()

    def add(self, name: str) -> None:
        with self._turn:
            self._counts[name] += 1

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def metrics(self) -> Mapping[str, int]:
        """The lease metrics by their names, without the prefix."""
        with self._turn:
            found = Counter(self._counts)
        return {
            "leases_active": found[ACQUIRED] - found[ENDED],
            "lease_conflicts_total": found[OVERTAKEN] + found[REFUSED],
            "lease_lost_total": found[LOST],
        }

    def take(self) -> Mapping[str, int]:
        """What the totals have grown by since they were last taken: whoever takes it writes it down."""
        found = Counter({name: count for name, count in self.metrics().items() if name.endswith("_total")})
        with self._turn:
            more = found - self._taken
            self._taken += more
        return more

    def give_back(self, more: Mapping[str, int]) -> None:
        """What was taken and could not be written down is taken again the next time."""
        with self._turn:
            self._taken -= Counter(more)
