"""What storage costs, as the user says it. An estimate for people; nothing is decided by it."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
FILES_PER_REQUEST = 1000  # an object store lists, and removes, so many names with one request


@dataclass(frozen=True, slots=True)
class Cost:
    """The prices of `[cost]`: of one GiB kept for a month, and of a thousand requests."""

    per_gib_month: float = 0.023
    per_1000_requests: float = 0.005
    currency: str = "USD"

    def of_month(self, count: int) -> float:
        """What it costs to keep so many bytes for a month."""
        return count / GIB * self.per_gib_month

    def of_requests(self, requests: int) -> float:
        return requests / 1000 * self.per_1000_requests

    def money(self, amount: float) -> str:
        """An amount as people read it. Small amounts are not rounded away: nothing is not the same as a little."""
        if 0 < amount < 0.01:
            return f"under 0.01 {self.currency}"
        return f"{amount:,.2f} {self.currency}"


def requests_for(files: int) -> int:
    """How many requests it takes to list, or to remove, so many files."""
    return -(-files // FILES_PER_REQUEST)
