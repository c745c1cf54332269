"""A look at the catalogs serves one batch, and several only where it takes long and is still fresh."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat
from lakewarden.steps.apply.look import Looks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Catalogs:
    """Catalogs that need some seconds for a look, and writers that come and go."""

    takes: list[float]
    now: float = 100.0
    looks: int = 0
    writing: list[str] = field(default_factory=list)

    def check(self) -> float:
        began = self.now
        self.now += self.takes[min(self.looks, len(self.takes) - 1)]
        self.looks += 1
        return began

    def writers(self) -> list[Heartbeat]:
        return [Heartbeat(name, "t", "file:///t/", NOON, NOON, 300) for name in self.writing]

    def opened(self) -> Looks:
        return Looks(self.check, self.writers, lambda: self.now)


def test_a_quick_look_is_taken_before_every_batch() -> None:
    catalogs = Catalogs([0.9])
    looks = catalogs.opened()
    for number in range(1, 5):
        looks.next()
        assert catalogs.looks == number


def test_a_long_look_serves_batches_that_follow_soon() -> None:
    catalogs = Catalogs([2.0])
    looks = catalogs.opened()
    first = looks.next()
    catalogs.now += 7.9
    assert looks.next().began == first.began
    catalogs.now += 0.2
    assert looks.next().began > first.began
    assert catalogs.looks == 2


def test_no_look_serves_beyond_a_third_of_what_a_validation_may_be_old() -> None:
    catalogs = Catalogs([6.0])
    looks = catalogs.opened()
    first = looks.next()
    catalogs.now = first.began + MARGINS.validation_seconds / 3 + 0.1
    assert looks.next().began > first.began


@pytest.mark.parametrize(("takes", "looks"), [([40.0, 0.1], 2), ([40.0, 40.0, 0.1], 3), ([40.0], 3)])
def test_a_look_that_took_too_long_is_taken_again(takes: list[float], looks: int) -> None:
    catalogs = Catalogs(takes)
    catalogs.opened().next()
    assert catalogs.looks == looks


def test_writers_of_before_the_look_count_as_long_as_it_serves() -> None:
    catalogs = Catalogs([2.0], writing=["slow"])
    looks = catalogs.opened()
    assert [beat.writer for beat in looks.next().writers] == ["slow"]
    # The first committed after the look and stopped beating: only the heartbeat of before tells of its files.
    catalogs.writing = ["new"]
    assert [beat.writer for beat in looks.next().writers] == ["slow", "new"]
