"""A real ledger for each test, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.ledger.database import Ledger, open_ledger


class SteppedClock:
    """A clock that moves one millisecond a look, and as far as a test says."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def boot(self) -> float:
        return self.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/state/ledger.db"


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def ledger(ledger_url: str, clock: SteppedClock) -> Iterator[Ledger]:
    """An open, empty ledger."""
    with open_ledger(ledger_url, clock) as opened:
        yield opened
