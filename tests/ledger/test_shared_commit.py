"""Rows that many threads enter at once share commits, and each row's fate is its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from sqlalchemy import Connection

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.shared_commit import Rows, SharedCommit
from lakewarden.model.errors import StateError
from tests.ledger.samples import started


def test_steps_of_many_threads_are_all_there_when_each_returns(ledger: Ledger) -> None:
    started(ledger)

    def note(number: int) -> bool:
        ledger.runs.step("run-1", "begun", {"table": number})
        return any(step.detail == {"table": number} for step in ledger.runs.steps("run-1"))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(note, range(40)))
    assert sorted(step.detail["table"] for step in ledger.runs.steps("run-1")) == list(range(40))


def test_those_that_wait_go_together_and_only_the_bad_one_fails(ledger: Ledger) -> None:
    begun, go = Event(), Event()
    commits: list[list[str]] = []

    def write(_connection: Connection, rows: Rows) -> None:
        names = [str(row["name"]) for row in rows]
        if names == ["first"]:
            begun.set()
            go.wait(10)
        if "bad" in names:
            raise StateError(f"cannot write {names}")
        commits.append(names)

    entries = SharedCommit(ledger._connections, write)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(entries.enter, {"name": "first"})
        assert begun.wait(10)
        others = [pool.submit(entries.enter, {"name": name}) for name in ("a", "b")]
        while len(entries._waiting) < len(others):
            Event().wait(0.01)
        go.set()
        for one in (first, *others):
            one.result()
        assert [sorted(names) for names in commits] == [["first"], ["a", "b"]]

        begun.clear()
        go.clear()
        first = pool.submit(entries.enter, {"name": "first"})
        assert begun.wait(10)
        others = [pool.submit(entries.enter, {"name": name}) for name in ("c", "bad", "d")]
        while len(entries._waiting) < len(others):
            Event().wait(0.01)
        go.set()
        first.result()
        with pytest.raises(StateError, match="bad"):
            others[1].result()
        others[0].result()
        others[2].result()
    assert {name for names in commits for name in names} == {"first", "a", "b", "c", "d"}
