"""A real ledger for each test, on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from lakewarden.ledger.database import Ledger, open_ledger
from tests.servers_postgres import PostgresMissingError, start_postgres
from tests.support.missing import missing

_numbers = itertools.count()


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


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server. Without one the test is skipped; on CI that is a failure."""
    try:
        url, stop = start_postgres(tmp_path_factory.mktemp("pg"))
    except PostgresMissingError as error:
        missing(error)
    yield url
    stop()


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """An empty PostgreSQL database of this test's own."""
    name = f"ledger_{os.getpid()}_{next(_numbers)}"
    engine = create_engine(postgres_server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return postgres_server.removesuffix("/postgres") + f"/{name}"


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
