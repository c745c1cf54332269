"""Which months are over and not summed up, or have more snapshots by now than when they were."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from lakewarden.ledger.database import Ledger


def due_months(ledger: Ledger, coming: Mapping[tuple[str, str], int], now: datetime) -> dict[str, set[str]]:
    """The months to sum up, each with the uuids of the tables that have snapshots in it.

    `coming`: how many snapshots are about to be archived, by (month, uuid). A month that goes on is not due.
    """
    made = {month.month: month.snapshots for month in ledger.history.months()}
    counts: dict[tuple[str, str], int] = dict(ledger.history.by_month())
    for place, count in coming.items():
        counts[place] = counts.get(place, 0) + count
    totals: dict[str, int] = {}
    tables: dict[str, set[str]] = {}
    for (month, uuid), count in counts.items():
        totals[month] = totals.get(month, 0) + count
        tables.setdefault(month, set()).add(uuid)
    this_month = f"{now.astimezone(UTC):%Y-%m}"
    return {m: tables[m] for m, total in totals.items() if m < this_month and made.get(m) != total}
