"""A run without an end is at work as long as somebody can hold its lease, and stopped from then on."""

from __future__ import annotations

import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.ledger import leases as ledger_leases
from lakewarden.ledger.leases import Leases
from lakewarden.ledger.processes import own_process
from lakewarden.ledger.run_status import as_shown, run_lease
from lakewarden.ledger.runs import Run
from lakewarden.model.actor import Actor
from lakewarden.model.lease import Process
from lakewarden.storage.stores import Stores
from tests.ledger.test_leases import Turned

RUN = Run("r1", "orphan-cleanup", "p1", "running", Actor("me", "one"), datetime(2026, 1, 1, tzinfo=UTC))
TTL = 120.0
ELSEWHERE = Process("another boot", "another space", 7, 7)


@pytest.fixture
def leases() -> Leases:
    return Leases(Stores(), f"memory://m{uuid.uuid4().hex}/state/leases/", Turned(), "one")


def shown(leases: Leases, run: Run = RUN, after: float = 0.0) -> str:
    return as_shown(run, leases, Turned().now() + timedelta(seconds=after)).status


def hold(leases: Leases, monkeypatch: pytest.MonkeyPatch, process: Process | None) -> None:
    monkeypatch.setattr(ledger_leases, "own_process", lambda: process)
    leases.acquire(run_lease(RUN.run_id), TTL)


def test_a_living_process_is_at_work(leases: Leases) -> None:
    assert shown(leases) == "running", "no lease tells otherwise"
    held = leases.acquire(run_lease(RUN.run_id), TTL)
    assert shown(leases) == "running"
    held.release()
    assert shown(leases) == "stopped"


def test_a_dead_process_of_this_machine_is_known_at_once(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = own_process()
    if ours is None:
        pytest.skip("this system does not tell processes apart")
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    hold(leases, monkeypatch, replace(ours, pid=child.pid, started=1))
    assert shown(leases) == "stopped"


def test_another_machine_s_silence_is_given_time(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(leases, monkeypatch, ELSEWHERE)
    assert shown(leases, after=TTL + 299) == "running", "its clock may be behind"
    assert shown(leases, after=TTL + 301) == "stopped"


def test_only_a_run_that_says_running_is_looked_at(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(leases, monkeypatch, ELSEWHERE)
    for run in (replace(RUN, status="partial", finished_at=RUN.started_at), replace(RUN, status="stopped")):
        assert as_shown(run, leases, datetime.max.replace(tzinfo=UTC)) is run


def test_a_lease_that_cannot_be_read_says_nothing(leases: Leases) -> None:
    leases.acquire(run_lease(RUN.run_id), TTL)
    leases._stores.put(leases._uri(run_lease(RUN.run_id)), b"not a record")
    assert shown(leases, after=1e6) == "running"
