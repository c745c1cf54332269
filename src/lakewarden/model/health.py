"""How a table is, by the facts that are known of it: healthy, in need of attention, or refused. Pure.

Doctor, the report page and whoever shows tables ask this one function, so that they never disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Tally

MANY_SNAPSHOTS = 1000
ORPHAN_SHARE = 0.05
SMALL_SHARE = 0.5
MANY_SMALL_FILES = 100
SMALL_FILE_BYTES = 32 << 20


class Status(StrEnum):
    """Worst first."""

    REFUSED = "refused"
    ATTENTION = "attention"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known of one table. None where nobody has looked.

    `live` and `orphans` are what the newest plan of orphan cleanup counted, and `orphans` only while nobody has applied
    it; `small` are the data files below SMALL_FILE_BYTES, of `data` in all, which metadata may tell by itself; `broken_refs` lead to no snapshot;
    `no_expiry` is why snapshot expiry leaves the table alone, where other jobs do not.
    """

    identifier: str
    refusal: Refusal | None = None
    in_doubt: bool = False
    snapshots: int = 0
    planned: bool = False
    live: Tally | None = None
    orphans: Tally | None = None
    data: Tally | None = None
    small: Tally | None = None
    broken_refs: int = 0
    no_expiry: Refusal | None = None

    @property
    def orphan_share(self) -> float | None:
        """Which part of the bytes in the table's directories nobody needs."""
        if self.live is None or self.orphans is None:
            return None
        return self.orphans.bytes / total if (total := self.live.bytes + self.orphans.bytes) else 0.0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a table is not healthy: a code of an error page or a name of ours to group by, the words, what to do next."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Health:
    status: Status
    reasons: tuple[Reason, ...] = ()


def health_of(facts: TableFacts) -> Health:
    """Refused where nothing of the table may be touched; attention where somebody should look; else healthy."""
    if (why := facts.refusal) is not None:
        return Health(Status.REFUSED, (Reason(why.code, why.message, why.hint),))
    reasons = tuple(_reasons(facts))
    return Health(Status.ATTENTION if reasons else Status.HEALTHY, reasons)


def _reasons(facts: TableFacts) -> Iterator[Reason]:
    if facts.in_doubt:
        yield Reason("in doubt", "less can be seen of it than before", "Run lakewarden doctor: its doubts say what.")
    if (why := facts.no_expiry) is not None:
        yield Reason(why.code, f"snapshot expiry leaves it alone: {why.message}", why.hint)
    if facts.broken_refs:
        yield Reason(
            "broken ref",
            "a branch or tag leads to no snapshot",
            "Drop the ref with an engine, or restore its snapshot.",
        )
    if not facts.planned:
        yield Reason("never planned", "orphan cleanup has not looked at it yet", "Run lakewarden plan orphans.")
    share = facts.orphan_share
    if share is not None and share >= ORPHAN_SHARE:
        yield Reason(
            "orphans",
            f"{ORPHAN_SHARE:.0%} or more of its bytes are orphans",
            "Look at the newest plan with lakewarden show, then apply it.",
        )
    if facts.snapshots >= MANY_SNAPSHOTS:
        yield Reason(
            "many snapshots",
            f"it has {MANY_SNAPSHOTS:,} snapshots or more",
            "Run lakewarden forecast to see what shorter retention releases, then lakewarden plan snapshot-expiry.",
        )
    if (told := _small_files(facts)) is not None:
        yield Reason("small files", told, "Run lakewarden plan compaction: it says what rewriting them is worth.")


def _small_files(facts: TableFacts) -> str | None:
    """Of a table whose files nobody listed one by one, their average tells."""
    data, limit = facts.data or Tally(), f"{SMALL_FILE_BYTES >> 20} MiB"
    if facts.small is not None:
        many = facts.small.files >= max(MANY_SMALL_FILES, SMALL_SHARE * data.files)
        return f"half of its data files or more are below {limit}" if many else None
    many = data.files >= MANY_SMALL_FILES and data.bytes < data.files * SMALL_FILE_BYTES
    return f"it has {MANY_SMALL_FILES} data files or more, below {limit} on average" if many else None
