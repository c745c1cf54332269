"""One look at all catalogs before a batch goes; where a look takes long, for several small batches.

A catalog that answers table by table needs seconds for ten thousand tables, and a batch of a thousand files is gone in
less. How old a look may be when files go stays what it was: the door itself refuses an old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat

CHECKS_A_BATCH = 3
# A quick look is taken before every batch. A longer one is used again for so many times as long as it took, and never
# beyond a third of what a validation may be old: a batch needs the rest to go.
QUICK_SECONDS = 1.0
TIMES = 4
FRESH_SECONDS = MARGINS.validation_seconds / 3

Writers = Callable[[], Sequence[Heartbeat]]


@dataclass(frozen=True, slots=True)
class Look:
    """When a look began and how long it took, by the boot clock, and the writers that were at work before it."""

    began: float
    took: float
    writers: Sequence[Heartbeat]

    def serves(self, now: float) -> bool:
        """Whether the look may stand for a batch that begins now."""
        return self.took > QUICK_SECONDS and now - self.began <= min(FRESH_SECONDS, (1 + TIMES) * self.took)


class Looks:
    """Looks for one batch after the other. `check` answers with the boot second at which it began."""

    def __init__(self, check: Callable[[], float], writers: Writers, boot: Callable[[], float]) -> None:
        self._check = check
        self._writers = writers
        self._boot = boot
        self._last: Look | None = None

    def next(self) -> Look:
        """A look that is fresh, or one that still serves. Writers are those of before the look, and of now.

        Writers first, then pointers: one that commits and stops beating in between is seen by one of the two.
        """
        writers = self._writers()
        last = self._last
        if last is not None and last.serves(self._boot()):
            return Look(last.began, last.took, (*last.writers, *writers))
        for _ in range(CHECKS_A_BATCH):
            began = self._check()
            found = self._last = Look(began, self._boot() - began, writers)
            # A table with many new manifests takes long once, and is quick the next time.
            if found.took <= FRESH_SECONDS:
                break
        return found
