"""What was saved, month by month, and what could be: bytes that runs freed and that plans would free, with their price."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.ledger.activity import Activity
from lakewarden.model.cost import Cost

RECENT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class SavedMonth:
    """A month by its name, `2026-03`: what was freed in it, and what every month since costs less for that."""

    month: str
    bytes: int
    saved_a_month: float


def saved_by_month(activity: Activity, cost: Cost, now: datetime, months: int) -> list[SavedMonth]:
    """The last so many months with this one, the newest first; those in which nothing was freed too."""
    names = [_month(now, ago) for ago in range(months)]
    first = datetime.strptime(names[-1], "%Y-%m").replace(tzinfo=now.tzinfo)
    freed: Counter[str] = Counter()
    for at, count in activity.reclaimed(first):
        freed[f"{at:%Y-%m}"] += count
    return [SavedMonth(name, freed[name], cost.of_month(freed[name])) for name in names]


def freed_lately(activity: Activity, now: datetime) -> int:
    """The bytes that runs freed within the last 30 days."""
    return sum(count for _, count in activity.reclaimed(now - RECENT))


def _month(now: datetime, ago: int) -> str:
    year, month = divmod(now.year * 12 + now.month - 1 - ago, 12)
    return f"{year:04}-{month + 1:02}"
