"""What the first page tells, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakewarden.ledger.fleet import FleetSummary
from lakewarden.ledger.requests import Request
from lakewarden.model.service import RequestStatus
from lakewarden.reports.page.pictures import scale, stacked
from lakewarden.reports.page.text import number, plural, size
from lakewarden.service.html.pictures import Bar, Columns, columns
from lakewarden.service.html.plans import summary_of
from lakewarden.service.html.runs import open_requests, run_row
from lakewarden.service.html.words import relative
from lakewarden.service.service import Service

DAYS = 30
WEEK = timedelta(days=7)
MOST_CODES = 5
MOST_ROWS = 6
LOOKED_AT = 50
WORDS = {"refused": "refused", "attention": "to look at", "healthy": "healthy"}


def overview(service: Service) -> dict[str, Any]:
    """The fleet in figures, what needs somebody, what happens now and next."""
    now, ledger = service.clock.now(), service.ledger
    summary = ledger.fleet.summary()
    freed = ledger.activity.reclaimed(now - timedelta(days=DAYS))
    failures, failed = ledger.activity.failures(now - WEEK, MOST_ROWS)
    waiting = ledger.requests.list(status=[RequestStatus.WAITING], limit=MOST_ROWS)
    running, more_queued = open_requests(service, (RequestStatus.RUNNING, RequestStatus.QUEUED), MOST_ROWS)
    bars = [(kind, count, f"{number(count)} {WORDS[kind]}") for kind, count in summary.health.items()]
    return {
        "summary": summary,
        "words": WORDS,
        "tiles": list(_tiles(service, summary, sum(size for _, size in freed), now)),
        "health_bar": stacked(bars),
        "refused": list(_refused(service, summary)),
        "freed": _by_day(freed, now),
        "freed_total": sum(size for _, size in freed),
        "days": DAYS,
        "waiting": waiting,
        "summaries": _summaries(service, waiting),
        "running": running,
        "more_queued": more_queued,
        "due": [one for one in ledger.schedules.list() if one.next_due is not None][:MOST_ROWS],
        "failures": [run_row(service, run, now) for run in failures],
        "failed": failed,
        "unrun": _never_ran(service, now),
    }


def _tiles(service: Service, summary: FleetSummary, freed: int, now: datetime) -> Iterator[dict[str, Any]]:
    cost = service.settings.cost.prices
    yield {
        "name": "Reclaimable",
        "value": size(summary.reclaimable_bytes),
        "words": f"{cost.money(cost.of_month(summary.reclaimable_bytes))} a month: planned orphans, and what expiry released",
        "href": "/tables?sort=reclaimable_bytes&down=1",
    }
    yield {
        "name": f"Reclaimed in {DAYS} days",
        "value": size(freed),
        "words": f"{cost.money(cost.of_month(freed))} a month saved",
        "href": "/runs",
    }
    refused = summary.health.get("refused", 0)
    yield {
        "name": "Refused tables",
        "value": number(refused),
        "words": "no file of them is removed" if refused else "every table can be looked after",
        "href": "/tables?health=refused",
        "bad": refused > 0,
    }
    seen = f"seen {relative(summary.observed_at, now)}" if summary.observed_at else "not looked at yet"
    yield {
        "name": "Tables",
        "value": number(summary.tables),
        "words": f"{size(summary.bytes)} in use, {seen}",
        "href": "/tables",
    }


def _summaries(service: Service, waiting: Sequence[Request]) -> dict[str, str]:
    """By plan, what somebody would agree to."""
    ids = [one.plan_id for one in waiting if one.plan_id]
    views = service.ledger.activity.views(ids)
    saved = (service.ledger.plans.get(plan_id) for plan_id in views)
    return {one.plan_id: summary_of(one, views[one.plan_id]) for one in saved if one is not None}


def _never_ran(service: Service, now: datetime) -> list[Request]:
    """Requests of the week that failed or were refused before a run began: a catalog that did not answer, say."""
    bad = [RequestStatus.FAILED, RequestStatus.REFUSED]
    found = service.ledger.requests.list(status=bad, limit=LOOKED_AT)
    return [one for one in found if one.run_id is None and one.created_at >= now - WEEK][:MOST_ROWS]


def _refused(service: Service, summary: FleetSummary) -> Iterator[dict[str, Any]]:
    """The refused tables by code, most first: one of them, its words, and how many there are."""
    if not summary.health.get("refused"):
        return
    shown = 0
    for code in summary.codes:
        page = service.ledger.fleet.page(health="refused", code=code, sort="identifier", limit=3, detailed=True)
        if not page.rows:
            continue
        reason = reason_of(page.rows[0].detail, code)
        yield {
            "code": code,
            "count": page.total,
            "tables": [row.identifier for row in page.rows],
            "words": plural(page.total, "table"),
            **reason,
        }
        shown += 1
        if shown == MOST_CODES:
            return


def reason_of(detail: dict[str, Any], code: str) -> dict[str, str]:
    """The words of one reason, as the last look at the fleet kept them."""
    found: dict[str, Any] = next((one for one in detail.get("reasons", ()) if one["code"] == code), {})
    return {"message": str(found.get("message", "")), "hint": str(found.get("hint", ""))}


def _by_day(freed: list[tuple[datetime, int]], now: datetime) -> Columns:
    """Bytes that runs freed, for each of the last days."""
    days = [(now - timedelta(days=ago)).date() for ago in range(DAYS - 1, -1, -1)]
    sums = dict.fromkeys(days, 0)
    for at, count in freed:
        if at.date() in sums:
            sums[at.date()] += count
    bars = [
        Bar(f"{day:%d %b}" if place % 5 == 4 else "", float(count), f"{day:%Y-%m-%d}: {size(count)}")
        for place, (day, count) in enumerate(sums.items())
    ]
    return columns(bars, [(at, size(at)) for at in scale(max(sums.values()))])
