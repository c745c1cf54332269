"""What expiry would release at each of several retentions, and what a lake grows a day. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Tally
from lakewarden.model.table import Commit

RETENTIONS = (1, 3, 7, 14, 30, 90)  # days
GROWTH_DAYS = 30
NOTHING = Tally()
_DAY_MS = 86_400_000


class Source(StrEnum):
    """How it is known what a table grows."""

    SNAPSHOTS = "snapshots"  # what each commit says it added
    FILES = "files"  # data files that metadata names now, by the time at which each was written


@dataclass(frozen=True, slots=True)
class Growth:
    """How many bytes were added in so many days. Rewriting is not adding, where commits say which was which."""

    bytes: int
    days: float
    source: Source

    @property
    def a_day(self) -> float:
        return self.bytes / self.days


@dataclass(frozen=True, slots=True)
class Release:
    """What would go at one retention."""

    days: int
    snapshots: int = 0
    refs: int = 0
    changelogs: int = 0
    tally: Tally = NOTHING

    def __add__(self, other: Release) -> Release:
        return Release(
            self.days,
            self.snapshots + other.snapshots,
            self.refs + other.refs,
            self.changelogs + other.changelogs,
            self.tally + other.tally,
        )

    def as_json(self) -> dict[str, int]:
        counts = {"snapshots": self.snapshots, "refs": self.refs, "changelogs": self.changelogs}
        return {"days": self.days, **counts, **asdict(self.tally)}


@dataclass(frozen=True, slots=True)
class FileClass:
    """Data files that are alike in size and age."""

    small: bool
    recent: bool
    tally: Tally


@dataclass(frozen=True, slots=True)
class TableForecast:
    """One table: what its metadata names now, the data files of that, the small ones of those, and what would go."""

    identifier: str
    format: str
    refusal: Refusal | None = None
    snapshots: int = 0
    now: Tally = NOTHING
    data: Tally = NOTHING
    small: Tally = NOTHING
    releases: tuple[Release, ...] = ()
    growth: Growth | None = None
    # Data files by whether they are small and whether they were written in the last GROWTH_DAYS: for a picture.
    classes: tuple[FileClass, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "identifier": self.identifier,
            "format": self.format,
            "refusal": asdict(self.refusal) if self.refusal else None,
            "snapshots": self.snapshots,
            "now": asdict(self.now),
            "data": asdict(self.data),
            "small": asdict(self.small),
            "releases": [release.as_json() for release in self.releases],
            "growth": _growth_json([self.growth] if self.growth else [], 0 if self.growth else 1),
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """Several tables at one moment."""

    at: datetime
    retentions: tuple[int, ...]
    tables: tuple[TableForecast, ...] = field(default_factory=tuple)

    @property
    def counted(self) -> Sequence[TableForecast]:
        """The tables that were not refused."""
        return [table for table in self.tables if table.refusal is None]

    @property
    def releases(self) -> tuple[Release, ...]:
        """The sums over all tables, one for each retention."""
        total = [Release(days) for days in self.retentions]
        for table in self.counted:
            total = [one + other for one, other in zip(total, table.releases, strict=True)]
        return tuple(total)

    def sum_of(self, part: str) -> Tally:
        """`now`, `data` or `small` of all tables."""
        return sum((getattr(table, part) for table in self.counted), Tally())

    @property
    def growth_a_day(self) -> float:
        return sum(table.growth.a_day for table in self.counted if table.growth)

    @property
    def growth_unknown(self) -> int:
        """Of how many tables it is not known what they grow."""
        return sum(table.growth is None for table in self.counted)

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at.isoformat(),
            "retentions": list(self.retentions),
            "tables": [table.as_json() for table in self.tables],
            "totals": {
                "tables": len(self.counted),
                "refused": len(self.tables) - len(self.counted),
                "snapshots": sum(table.snapshots for table in self.counted),
                **{part: asdict(self.sum_of(part)) for part in ("now", "data", "small")},
                "releases": [release.as_json() for release in self.releases],
                "growth": _growth_json([t.growth for t in self.counted if t.growth], self.growth_unknown),
            },
        }


def growth_of(commits: Iterable[Commit], now: datetime, written: Tally | None) -> Growth | None:
    """What a table grows: by its commits of the last days, or by the files `written` in these days and still named.

    A history that is shorter than the window is taken for what it is: the days since its first commit, one at least.
    """
    now_ms = int(now.timestamp() * 1000)
    since = now_ms - GROWTH_DAYS * _DAY_MS
    known = sorted(commits, key=lambda commit: commit.at_ms)
    if known and all(commit.added_bytes is not None for commit in known):
        days = min(GROWTH_DAYS, max(1.0, (now_ms - known[0].at_ms) / _DAY_MS))
        added = sum(commit.added_bytes or 0 for commit in known if commit.at_ms >= since)
        return Growth(added, days, Source.SNAPSHOTS)
    return Growth(written.bytes, float(GROWTH_DAYS), Source.FILES) if written is not None else None


def _growth_json(known: Sequence[Growth], unknown: int) -> dict[str, Any]:
    """Bytes a day, and of how many tables that is not known."""
    if not known:
        return {"bytes_per_day": None, "unknown_tables": unknown, "sources": []}
    return {
        "bytes_per_day": round(sum(found.a_day for found in known)),
        "unknown_tables": unknown,
        "sources": sorted({str(found.source) for found in known}),
    }
