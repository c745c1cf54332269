"""The register of histories: every builder under its name, and the rows they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.formats.paimon.reading import Row
from tests.formats.paimon.story import History, Story

Builder = Callable[[Path], History]

BUILDERS: dict[str, Builder] = {}
"""Each history's name with the function that builds it under a warehouse directory."""

WITH_JAVA: set[str] = set()
"""Those that Java has a part in: they need the `spark` fixture."""


def by_pypaimon(function: Builder) -> Builder:
    """Register a history that pypaimon alone writes."""
    BUILDERS[function.__name__] = function
    return function


def by_java(function: Builder) -> Builder:
    """Register a history that Java writes, or has a part in."""
    WITH_JAVA.add(function.__name__)
    return by_pypaimon(function)


def some(dt: str | None, first: int, count: int = 3) -> list[Row]:
    """Rows first … first + count - 1 of one partition."""
    return [(dt, number, f"v{number}") for number in range(first, first + count)]


def day_by_day(story: Story, days: int = 4) -> None:
    """One commit a day, each into its own partition and into the first one's."""
    for day in range(1, days + 1):
        story.append([*some("2024-01-01", day * 10, 2), *some(f"2024-01-{day:02}", day * 100)])
