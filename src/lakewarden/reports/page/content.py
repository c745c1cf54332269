"""What the page tells, as plain values: chosen, sorted and added up here, so that templates only print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from lakewarden.model.cost import Cost, requests_for
from lakewarden.model.errors import Refusal
from lakewarden.model.forecast import Forecast, TableForecast
from lakewarden.model.health import Health, Status, TableFacts, health_of
from lakewarden.model.plan import Tally
from lakewarden.reports.doctor import by_reason, open_intents, stale_leases
from lakewarden.reports.overview import Overview
from lakewarden.reports.page.lineage import lineage_of
from lakewarden.reports.page.pictures import Curve, curve, scale, stacked
from lakewarden.reports.page.text import number, plural, size
from lakewarden.reports.page.unsaid import unsaid_of
from lakewarden.reports.savings import freed_lately
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import selection

MOST_ROWS = 2000
LONGEST_BARS = 10
NAMED_TABLES = 12
WORDS = {Status.REFUSED: "refused", Status.ATTENTION: "to look at", Status.HEALTHY: "healthy"}
MIDDLE = 7  # the retention, in days, that stands for all in a table's row


@dataclass(frozen=True, slots=True)
class Row:
    """One table of the fleet, on one line of the page."""

    facts: TableFacts
    health: Health
    format: str
    pending: Tally
    forecast: TableForecast | None = None

    @property
    def order(self) -> tuple[int, int, str]:
        """Worst first, then by what can be freed, then by name."""
        orphans = self.facts.orphans.bytes if self.facts.orphans else 0
        return list(Status).index(self.health.status), -(orphans + self.release), self.facts.identifier

    @property
    def bytes(self) -> int | None:
        """What the table's metadata names, by the forecast or else by the newest plan."""
        if self.forecast is not None and self.forecast.refusal is None:
            return self.forecast.now.bytes
        return self.facts.live.bytes if self.facts.live else None

    @property
    def release(self) -> int:
        found = self.forecast.releases if self.forecast else ()
        return next((release.tally.bytes for release in found if release.days == MIDDLE), 0)

    @property
    def small_share(self) -> float | None:
        if self.facts.data is None or self.facts.small is None or not self.facts.data.files:
            return None
        return self.facts.small.files / self.facts.data.files


def content_of(
    deployment: Deployment,
    found: Overview,
    predicted: Forecast | None,
    no_forecast: Refusal | None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that `page.html` and its parts print, but for the last runs."""
    rows = sorted(_rows(found, predicted, selection(select, exclude)), key=lambda row: row.order)
    health = {row.facts.identifier: row.health for row in rows}
    counts = {status: sum(row.health.status is status for row in rows) for status in Status}
    bars = [(str(status), counts[status], f"{number(counts[status])} {WORDS[status]}") for status in Status]
    return {
        "version": version("lakewarden"),
        "worker": deployment.worker,
        "at": found.at,
        "selection": {"select": list(select), "exclude": list(exclude)},
        "frozen": found.frozen,
        "counts": {str(status): count for status, count in counts.items()},
        "words": {str(status): words for status, words in WORDS.items()},
        "health_bar": stacked(bars),
        "refused": list(by_reason(health, Status.REFUSED)),
        "attention": list(by_reason(health, Status.ATTENTION)),
        "named": NAMED_TABLES,
        "doubts": found.fleet.doubts,
        "undone": {"intents": list(open_intents(deployment)), "leases": list(stale_leases(deployment))},
        "money": list(_money(rows, predicted, deployment.cost)),
        "cost": deployment.cost,
        "requests": _requests(rows),
        "forecast": predicted,
        "no_forecast": no_forecast,
        "curve": _curve(predicted),
        "middle": MIDDLE,
        "tiles": list(_tiles(rows, predicted, deployment.cost, freed_lately(deployment.ledger.activity, found.at))),
        "largest": _largest(rows, lambda row: row.bytes or 0, size),
        "most_snapshots": _largest(rows, lambda row: row.facts.snapshots, number),
        "lineage": lineage_of(
            deployment,
            [s for s in found.fleet.states if s.identifier in health and s.identifier not in found.fleet.unlisted],
        ),
        "unsaid": unsaid_of(deployment, health),
        "rows": rows[:MOST_ROWS],
        "shown_tables": len(rows),
        "left_out": max(0, len(rows) - MOST_ROWS),
    }


def _rows(found: Overview, predicted: Forecast | None, wanted: Callable[[str], bool]) -> Iterator[Row]:
    forecasts = {table.identifier: table for table in predicted.tables} if predicted else {}
    for state in found.fleet.states:
        name = state.identifier
        if not wanted(name):
            continue
        facts, one = found.facts[name], forecasts.get(name)
        if one is not None and one.refusal is None:
            facts = replace(facts, data=one.data, small=one.small)
        elif one is not None and facts.refusal is None:
            # Of other jobs the forecast does not know: orphans of a table whose snapshots cannot expire may well be taken.
            facts = replace(facts, no_expiry=one.refusal)
        waiting = found.waiting.get(name)
        yield Row(facts, health_of(facts), state.format, waiting.tally if waiting else Tally(), one)


def _tiles(rows: Sequence[Row], predicted: Forecast | None, cost: Cost, freed: int) -> Iterator[dict[str, str]]:
    """The figures at the top: a name, a value, and what the value means."""
    known = [row.bytes for row in rows if row.bytes is not None]
    yield {
        "name": "Tables",
        "value": number(len(rows)),
        "words": plural(sum(row.facts.snapshots for row in rows), "snapshot"),
    }
    if known:
        unknown = f", unknown of {number(len(rows) - len(known))}" if len(known) < len(rows) else ""
        yield {
            "name": "In use",
            "value": size(sum(known)),
            "words": f"{cost.money(cost.of_month(sum(known)))} a month{unknown}",
        }
    orphans = _orphans(rows)
    unseen = sum(not row.facts.planned for row in rows)
    if orphans is None:
        yield {"name": "Orphans", "value": "unknown", "words": "no plan has looked yet"}
    else:
        more = f"; {plural(unseen, 'table')} not looked at" if unseen else ""
        words = f"{plural(orphans.files, 'file')}, in plans not yet applied{more}"
        yield {"name": "Orphans", "value": size(orphans.bytes), "words": words}
    yield {
        "name": "Freed in 30 days",
        "value": size(freed),
        "words": f"{cost.money(cost.of_month(freed))} a month saved",
    }
    if predicted is not None and predicted.counted:
        missing = predicted.growth_unknown
        yield {
            "name": "Added a day",
            "value": size(round(predicted.growth_a_day)),
            "words": f"unknown of {plural(missing, 'table')}" if missing else "by the last 30 days",
        }


def _money(rows: Sequence[Row], predicted: Forecast | None, cost: Cost) -> Iterator[dict[str, Any]]:
    """What can be freed, each way with its bytes, its price and the command that does it. What nobody has looked for has
    neither bytes nor price, and its command looks."""
    orphans = _orphans(rows)
    if orphans is None:
        yield {"name": "Orphans", "tally": None, "money": None, "command": "lakewarden plan orphans"}
    pending = sum((row.pending for row in rows), Tally())
    for name, tally, command in (
        ("Orphans of the newest plans", orphans, "lakewarden apply PLAN_DIR"),
        ("Released, waiting for deletion", pending, "lakewarden plan physical-deletion"),
    ):
        if tally is not None:
            yield {"name": name, "tally": tally, "money": cost.money(cost.of_month(tally.bytes)), "command": command}
    for release in predicted.releases if predicted and predicted.counted else ():
        if release.days in (MIDDLE, 30):
            yield {
                "name": f"Snapshots older than {release.days} days, if they expired",
                "tally": release.tally,
                "money": cost.money(cost.of_month(release.tally.bytes)),
                "command": "lakewarden plan snapshot-expiry",
            }


def _orphans(rows: Sequence[Row]) -> Tally | None:
    """What plans count that nobody has applied; None where no plan has looked at any of these tables."""
    if not any(row.facts.planned for row in rows):
        return None
    return sum((row.facts.orphans for row in rows if row.facts.orphans), Tally())


def _requests(rows: Sequence[Row]) -> int:
    """About how many requests it takes to list every directory once."""
    return sum(requests_for(row.facts.live.files) for row in rows if row.facts.live)


def _curve(predicted: Forecast | None) -> Curve | None:
    if predicted is None or not predicted.counted:
        return None
    values = [(_days(release.days), float(release.tally.bytes)) for release in predicted.releases]
    return curve(values, [(at, size(at)) for at in scale(max(value for _, value in values))])


def _days(days: int) -> str:
    return "1 day" if days == 1 else f"{days} days"


def _largest(rows: Sequence[Row], value: Callable[[Row], int], words: Callable[[int], str]) -> list[dict[str, Any]]:
    """The tables with the largest values, each with its part of the largest."""
    chosen = sorted(rows, key=lambda row: (-value(row), row.facts.identifier))[:LONGEST_BARS]
    chosen = [row for row in chosen if value(row)]
    longest = value(chosen[0]) if chosen else 1
    return [
        {"name": row.facts.identifier, "words": words(value(row)), "part": round(100 * value(row) / longest, 1)}
        for row in chosen
    ]
