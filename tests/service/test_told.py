"""How much of a request's progress is written down: enough to watch it, however long it takes and however it is told."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.service.runner.told import Told

HOUR = 3600


class Written:
    """A ledger that counts events, and a clock that a test turns."""

    def __init__(self) -> None:
        self.details: list[dict[str, Any]] = []
        self.at = 0.0

    def event(self, request_id: str, name: str, detail: dict[str, Any]) -> None:
        self.details.append(detail)

    def told(self) -> Told:
        return Told(self, "q1", monotonic=lambda: self.at)  # type: ignore[arg-type]

    def of(self, stage: str) -> list[int]:
        return [one["done"] for one in self.details if one["stage"] == stage]


@pytest.fixture
def written() -> Written:
    return Written()


def test_each_stage_is_told_as_it_begins_and_as_it_ends(written: Written) -> None:
    told = written.told()
    for stage in ("list", "compare"):
        for done in range(1001):
            told(stage, done, 1000)
            written.at += 0.0001
    assert (written.of("list"), written.of("compare")) == ([0, 1000], [0, 1000])


def test_stages_of_two_threads_at_once_are_written_no_more_often_than_one(written: Written) -> None:
    """Each event is a durable write: one for each file would be slower than the work."""
    told = written.told()
    for done in range(10_000):
        told("copy" if done % 2 else "delete", done, 1_000_000)
        written.at += 0.001
    assert len(written.details) <= 24


def test_a_stage_of_one_step_for_each_of_many_tables_is_not_written_for_each(written: Written) -> None:
    told = written.told()
    for _ in range(10_000):
        told("metadata", 1, 1)
        written.at += 0.001
    assert len(written.details) <= 12


def test_a_day_of_work_is_told_in_some_thousand_events(written: Written) -> None:
    told = written.told()
    for second in range(24 * HOUR):
        told("compare", second, 10**9)
        written.at += 1.0
    assert 300 < len(written.details) < 5000
    late = [after - before for before, after in zip(written.of("compare"), written.of("compare")[1:], strict=False)]
    assert late[0] <= 2, "whoever watches the beginning sees it move"
    assert late[-1] < 300, "and the end too"
