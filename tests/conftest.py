"""Fixtures that every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from weakref import WeakSet

import pytest

pytest_plugins = [
    "pytester",
    "tests.support.needs",
    "tests.support.spark",
    "tests.support.storage",
    "tests.support.buckets",
    "tests.support.postgres",
    "tests.support.rest",
    "tests.support.chromium",
    "tests.support.worlds",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected files of tests/golden anew")


@pytest.fixture(scope="session", autouse=True)
def _time_passes_for_stores_too() -> Iterator[None]:
    """Nobody waits a day for a test: a clock that says how much time has passed says it for the stores as well."""
    from lakewarden.steps.observe import clocks as store_clock

    real = store_clock.skew

    def skew(stores: Any, place: str, worker: str, clock: Any) -> timedelta:
        return real(stores, place, worker, clock) + getattr(clock, "passed", timedelta())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_clock, "skew", skew)
        yield


@pytest.fixture(scope="session", autouse=True)
def _known_connections() -> Iterator[WeakSet[Any]]:
    """Whatever opened a state database in this process, for as long as somebody holds it."""
    from lakewarden.ledger.connection import Connections

    opened: WeakSet[Any] = WeakSet()
    begin = Connections.__init__

    def noted(self: Connections, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        opened.add(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Connections, "__init__", noted)
        yield opened


@pytest.fixture(scope="module", autouse=True)
def _files_closed(_known_connections: WeakSet[Any]) -> Iterator[None]:
    """A file of tests leaves no database open: with more than a thousand open files `select` fails, PySpark's too.

    Whoever goes on with one of them, such as a lake of the whole session, connects anew.
    """
    yield
    for connections in list(_known_connections):
        connections.close()
