"""How much one run rewrites, how much of it at a time, and how long it rests in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lakewarden.model.plan import TablePlan

# So many groups are rewritten before it is looked whether the run may go on; more if they are small.
GROUPS_A_WAVE, BYTES_A_WAVE = 8, 1 << 30


def budget_of(tables: Sequence[TablePlan]) -> int:
    """How many bytes one run rewrites; 0 is all of them."""
    return max((int(table.policy["max_bytes_per_run"]) for table in tables), default=0)


def share_of(tables: Sequence[TablePlan]) -> float:
    return min((float(table.policy["bandwidth_share"]) for table in tables), default=1.0)


def rate_of(tables: Sequence[TablePlan]) -> int:
    """How many bytes a second are said to be rewritten; 0 is as many as are seen to be."""
    return min((int(table.policy["rate_bytes_per_second"]) for table in tables), default=0)


def rest_after(worked: float, moved: int, share: float, rate: int) -> float:
    """How long to rest after so many seconds in which so many bytes were rewritten.

    Whatever rate was seen in these seconds, a share of the time is the same share of it. Of a rate that is set, the bytes
    say how long they should have taken.
    """
    return max(0.0, moved / (share * rate) - worked) if rate else worked * (1 / share - 1)


def waves(orders: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The orders, so many at a time as are worth a Spark job of their own: small groups all at once, large ones a few."""
    wave: list[dict[str, Any]] = []
    weight = 0
    for order in orders:
        wave.append(order)
        weight += order["weight"]
        if len(wave) >= GROUPS_A_WAVE and weight >= BYTES_A_WAVE:
            yield wave
            wave, weight = [], 0
    if wave:
        yield wave
