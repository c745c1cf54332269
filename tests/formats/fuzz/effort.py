"""How many examples a fuzz test tries: few and always the same in a normal run, many and other ones in a soak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

MANY = 50  # times as many in a soak


def few(examples: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )


def many(examples: int) -> Callable[[Any], Any]:
    return settings(max_examples=examples * MANY, database=None, deadline=None, suppress_health_check=list(HealthCheck))
