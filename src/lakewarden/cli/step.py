"""One step of a command, as whoever waits for it sees it: how much is done, for how long, how long it takes yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

# Before this much of a step is over, its speed says little about the rest.
SECONDS_BEFORE_ESTIMATE = 2.0


@dataclass(slots=True)
class Step:
    """A step that is under way. Without a total nobody knows how long it takes."""

    name: str
    total: int
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def count(self) -> str:
        return f"{self.done:,} of {self.total:,}" if self.total > 1 else ""

    @property
    def left(self) -> str:
        """How long the rest takes at the speed so far; nothing where that would be a guess."""
        if not 0 < self.done < self.total or self.seconds < SECONDS_BEFORE_ESTIMATE:
            return ""
        return f"about {duration(self.seconds * (self.total - self.done) / self.done)} left"


def line_of(step: Step, well: bool) -> str:
    """`✓ list and compare  1.2 s`: a step that is over."""
    sign = "✓" if well else "✗"
    return "  ".join(filter(None, (f"{sign} {step.name}", step.count, duration(step.seconds))))


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2 h 5 min`: as exact as somebody who waits wants to know it."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
