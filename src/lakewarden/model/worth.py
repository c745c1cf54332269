"""What a compaction is worth: what a full scan of a table saves, against the bytes that are rewritten for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from lakewarden.model.margins import MARGINS

# To open a file costs a reader about as much as to read so many bytes more: what engines count for it themselves.
OPENING_BYTES = 4 << 20
# A measured rate is believed once so many bytes were rewritten: before that it is mostly how long Spark takes to start.
MEASURED_BYTES = 64 << 20
# The curve of a plan has at most so many points.
POINTS = 20


class Fate(StrEnum):
    """What a plan does with a group: rewrites it, leaves it until its partition is quiet, or leaves it for better ones."""

    NOW = "now"
    SETTLING = "settling"
    BEYOND = "beyond"


@dataclass(frozen=True, slots=True)
class Worth:
    """Groups of files: what rewriting them costs, and what it saves each later scan of the whole table.

    A scan asks once for each data file, and once more for each file of deletes that applies to it: `requests` are those
    saved, `delete_bytes` the bytes of deletes that are not read any more. `written_bytes` is an estimate.
    """

    groups: int = 0
    files: int = 0
    files_after: int = 0
    bytes: int = 0
    written_bytes: int = 0
    requests: int = 0
    delete_bytes: int = 0

    def __add__(self, other: Worth) -> Worth:
        return Worth(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def per_cost(self) -> float:
        """What is saved for each byte that is read or written. A file that is only cut saves nothing, and comes last."""
        saved = self.requests * OPENING_BYTES + self.delete_bytes
        return saved / max(1, self.bytes + self.written_bytes)

    def as_values(self) -> dict[str, int]:
        return {**asdict(self), "files_fewer": self.files - self.files_after}

    @staticmethod
    def of(values: Mapping[str, Any]) -> Worth:
        return Worth(**{one.name: int(values[one.name]) for one in fields(Worth)})


@dataclass(frozen=True, slots=True)
class Rate:
    """How many bytes a second are rewritten while a run works, as it was set or as earlier runs were measured."""

    bytes_per_second: float
    measured: bool

    @staticmethod
    def known(set_to: int, measured: Iterable[tuple[int, float]]) -> Rate | None:
        """The rate that is set, else that of these bytes in these seconds; None while too little was rewritten to tell."""
        if set_to:
            return Rate(float(set_to), measured=False)
        rounds = list(measured)
        size, seconds = sum(one for one, _ in rounds), sum(one for _, one in rounds)
        return Rate(size / seconds, measured=True) if size >= MEASURED_BYTES and seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Budget:
    """How many bytes one plan may rewrite, None for all of them, and the setting that says so."""

    bytes: int | None = None
    why: str = ""

    @staticmethod
    def of(max_bytes_per_run: int, bandwidth_share: float, rate: Rate | None) -> Budget:
        """The smaller of what is set, and of what a run at its share of the rate can do before its plan expires."""
        found = Budget(max_bytes_per_run, f"max_bytes_per_run = {max_bytes_per_run}") if max_bytes_per_run else Budget()
        if rate is not None:
            day = int(rate.bytes_per_second * bandwidth_share * MARGINS.plan_lifetime.total_seconds())
            if found.bytes is None or day < found.bytes:
                hours = MARGINS.plan_lifetime.total_seconds() / 3600
                found = Budget(max(1, day), f"bandwidth_share = {bandwidth_share:g} of {hours:.0f} hours")
        return found


@dataclass(frozen=True, slots=True)
class Ranked:
    """All groups of a plan, best first: sums after each stretch of about the same bytes, and the first group that the
    budget leaves out, as (`-per_cost`, name)."""

    curve: tuple[Worth, ...] = ()
    first_beyond: tuple[float, str] | None = None


def summed_up(parts: Iterable[Worth]) -> tuple[Worth, ...]:
    """The sum after each part."""
    total, found = Worth(), []
    for part in parts:
        total += part
        found.append(total)
    return tuple(found)
