"""A database that somebody else keeps locked: waited for within bounds, then refused by its own name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text

from lakewarden.ledger import connection as connecting
from lakewarden.ledger.database import open_ledger
from lakewarden.ledger.migrate import LOCK_KEY
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import Exit, StateBusyError, StateUnwritableError
from tests.ledger.samples import ACTOR, started
from tests.support.worlds import MakeWorld, at_batch, hand_plan

BOUND = 1


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "BUSY_SECONDS", BOUND)
    monkeypatch.setattr(connecting, "LOCK_SECONDS", BOUND)
    monkeypatch.setattr(connecting, "STATEMENT_SECONDS", BOUND + 1)


@contextmanager
def locked(url: str, postgres: str = "LOCK TABLE lw_runs IN ACCESS EXCLUSIVE MODE") -> Iterator[None]:
    """While open, another program keeps the runs locked."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        if engine.dialect.name == "sqlite":
            connection.rollback()
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql(postgres)
        yield
    engine.dispose()


def test_a_locked_database_is_refused_by_name_in_time(ledger_url: str) -> None:
    with open_ledger(ledger_url, SystemClock()) as ledger:
        started(ledger)
        with locked(ledger_url):
            began = time.monotonic()
            with pytest.raises(StateBusyError, match="locked by somebody else") as refused:
                ledger.runs.start("run-2", "orphan-cleanup", None, ACTOR)
            assert time.monotonic() - began < 10
        assert (refused.value.code, refused.value.exit_code) == ("LW-STATE-004", Exit.FAILED)
        started(ledger, "run-2")


def test_a_statement_that_does_not_end_is_given_up(postgres_url: str) -> None:
    with open_ledger(postgres_url, SystemClock()) as ledger:
        with pytest.raises(StateBusyError), ledger._connections.read() as connection:
            connection.execute(text("SELECT pg_sleep(60)"))
        started(ledger)


def test_a_migration_that_does_not_end_is_not_waited_for(postgres_url: str) -> None:
    with locked(postgres_url, f"SELECT pg_advisory_lock({LOCK_KEY})"), pytest.raises(StateBusyError):
        open_ledger(postgres_url, SystemClock())
    open_ledger(postgres_url, SystemClock()).close()


def test_limits_of_the_server_s_own_are_left_alone(postgres_url: str) -> None:
    own = f"{postgres_url}?options=-c%20lock_timeout%3D7s"
    with open_ledger(own, SystemClock()) as ledger, ledger._connections.read() as connection:
        assert connection.execute(text("SHOW lock_timeout")).scalar() == "7s"


def test_a_standby_takes_no_record(postgres_url: str) -> None:
    """After a failover a worker may still be talking to the server that only reads now."""
    standby = connecting.connect(f"{postgres_url}?options=-c%20default_transaction_read_only%3Don", SystemClock())
    with pytest.raises(StateUnwritableError, match="read-only"), standby.write() as connection:
        connection.execute(text("CREATE TABLE anything (n int)"))
    standby.close()


def test_a_run_whose_database_is_locked_stops_and_goes_on(world_of: MakeWorld) -> None:
    world = world_of("sales.orders", batch_size=2)
    plan = hand_plan(world)
    lock = locked(f"sqlite:///{world.base}/state/lakewarden.db")
    with pytest.raises(StateBusyError) as stopped:
        world.apply(plan, progress=at_batch(2, lock.__enter__))
    lock.__exit__(None, None, None)
    assert "had changed" in stopped.value.hint
    result = world.apply(plan)
    assert (result.status, result.deleted.files + result.absent) == ("done", 6)
