"""What was saved by month: what runs freed, at the price of a month."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.model.cost import GIB, Cost
from lakewarden.model.service import Role
from lakewarden.reports.savings import freed_lately, saved_by_month
from tests.service.pages.fleet import fill
from tests.support.service import bearer, client_of, service_in, token


class Freed:
    """Runs that ended, without a ledger."""

    def __init__(self, *runs: tuple[datetime, int]) -> None:
        self.runs = runs

    def reclaimed(self, since: datetime) -> list[tuple[datetime, int]]:
        return [run for run in self.runs if run[0] >= since]


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}T12:00:00+00:00")


def test_months_are_told_with_what_they_save_and_empty_ones_too() -> None:
    freed = Freed((at("2025-12-31"), 3 * GIB), (at("2026-02-01"), GIB), (at("2026-02-27"), GIB), (at("2025-11-30"), 9))
    found = saved_by_month(freed, Cost(0.5), at("2026-02-28"), 3)  # type: ignore[arg-type]
    assert [(one.month, one.bytes, one.saved_a_month) for one in found] == [
        ("2026-02", 2 * GIB, 1.0),
        ("2026-01", 0, 0.0),
        ("2025-12", 3 * GIB, 1.5),
    ]
    assert freed_lately(freed, at("2026-02-28")) == 2 * GIB  # type: ignore[arg-type]


def test_the_api_says_what_was_saved_and_what_could_be(tmp_path: Path) -> None:
    service = service_in(tmp_path, "[cost]\nper_gib_month = 1.0\n")
    fill(service, tmp_path / "plans", 20)
    client, who = client_of(service), bearer(token(service, Role.VIEWER))
    told = client.get("/api/v1/savings?months=2", headers=who).json()
    now = datetime.now(UTC)
    assert told["months"][0] == {"month": f"{now:%Y-%m}", "bytes": 40 << 20, "saved_a_month": pytest.approx(40 / 1024)}
    assert told["could_save_a_month"] == pytest.approx(told["reclaimable_bytes"] / GIB)
    assert told["reclaimable_bytes"] > 0
    assert len(told["months"]) == 2
    service.ledger.close()
