"""Marks of runs, counted before they are made; and a process that finds the last it wrote gone."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.heads import Head, write_head
from lakewarden.ledger.marks import marks_in, write_mark
from lakewarden.model.errors import NotFoundError, StateBehindError
from lakewarden.storage.stores import Stores
from tests.ledger.samples import started
from tests.support.ledger import SteppedClock


def go_back(ledger: Ledger, *statements: str) -> None:
    """Let the database forget, as a server does that fails over to a standby which was behind."""
    with ledger._connections.write() as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_marks_are_counted_by_run(ledger: Ledger) -> None:
    started(ledger, "run-1")
    started(ledger, "run-2")
    assert [ledger.runs.add_mark("run-1") for _ in range(3)] == [1, 2, 3]
    assert ledger.runs.marks() == {"run-1": 3, "run-2": 0}
    with pytest.raises(NotFoundError):
        ledger.runs.add_mark("nobody")


@pytest.mark.parametrize(
    "lost", ["UPDATE lw_runs SET marks = 0", "DELETE FROM lw_steps WHERE name = 'second'", "DELETE FROM lw_steps"]
)
def test_a_process_notices_that_its_database_went_back(ledger: Ledger, lost: str) -> None:
    started(ledger)
    ledger.runs.add_mark("run-1")
    for name in ("first", "second"):
        ledger.runs.step("run-1", name)
    go_back(ledger, lost)
    with pytest.raises(StateBehindError, match="run-1"):
        ledger.runs.step("run-1", "third")
    with pytest.raises(StateBehindError):
        ledger.runs.add_mark("run-1")
    with pytest.raises(StateBehindError):
        ledger.runs.finish("run-1", "done", {})
    started(ledger, "run-2")
    ledger.runs.step("run-2", "fine")


def test_a_step_of_another_run_in_the_same_place_is_not_taken_for_it(ledger: Ledger) -> None:
    started(ledger, "run-1")
    started(ledger, "run-2")
    ledger.runs.step("run-1", "first")
    go_back(ledger, "UPDATE lw_steps SET run_id = 'run-2'")
    with pytest.raises(StateBehindError):
        ledger.runs.step("run-1", "second")


def test_what_another_process_wrote_meanwhile_is_no_reason(
    ledger: Ledger, ledger_url: str, clock: SteppedClock
) -> None:
    started(ledger)
    ledger.runs.step("run-1", "first")
    with open_ledger(ledger_url, clock) as other:
        other.runs.step("run-1", "of the next worker")
        other.runs.add_mark("run-1")
    ledger.runs.step("run-1", "second")
    assert ledger.runs.add_mark("run-1") == 2


def test_a_head_is_the_last_of_a_run_s_marks() -> None:
    stores, state = Stores(), "memory://marks/state/"
    write_mark(stores, state, "a", 1, {"job": "orphan-cleanup"})
    write_mark(stores, state, "a", 3, {"job": "orphan-cleanup"})
    write_head(stores, state, "a", Head("hash", 0, ""))
    write_mark(stores, state, "b", 1, {})
    write_head(stores, state, "c", Head("hash", 0, ""))
    with pytest.raises(StateBehindError, match="begun-3"):
        write_mark(stores, state, "a", 3, {})
    names = [file.key for file in stores.entries(f"{state}journal-heads/").files]
    assert marks_in([*names, "a note of somebody's"]) == {"a": 4, "b": 1, "c": 1}
