"""Snapshots that break the rules of their table: how many, by whom, what they lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from lakewarden.model.lineage import OPERATION, OPERATIONS, WRITER, Requirements, violations

# A plan names so many of a table's newest violations, and so many of its writers; the counts are of all.
MOST_NAMED = 100
MOST_WRITERS = 50
# Where nobody says who wrote: what engines say of themselves, the most telling first.
_OTHERWISE = ("commit.user", "app-id", "spark.app.id", "engine-name")


class Committed(Protocol):
    """What is asked of a snapshot."""

    @property
    def snapshot_id(self) -> int: ...

    @property
    def committed_ms(self) -> int: ...

    @property
    def operation(self) -> str: ...

    @property
    def summary(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class LineageCheckPolicy:
    """How far back a table is checked; 0: as far as it has snapshots."""

    enabled: bool
    dry_run: bool
    since_hours: float

    @staticmethod
    def of(values: Mapping[str, Any]) -> LineageCheckPolicy:
        """The policy that these values of `[lineage_check]` spell."""
        return LineageCheckPolicy(values["enabled"], values["dry_run"], values["since_hours"])

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names, as a plan records it."""
        return {"dry_run": self.dry_run, "since_hours": self.since_hours}


@dataclass(frozen=True, slots=True)
class Violation:
    """One snapshot that breaks the rules."""

    snapshot_id: int
    at: datetime
    operation: str
    writer: str
    lacks: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "snapshot_id": self.snapshot_id,
            "at": self.at.isoformat(),
            "operation": self.operation,
            "writer": self.writer,
            "lacks": list(self.lacks),
        }


@dataclass(frozen=True, slots=True)
class Checked:
    """One table: how many snapshots were looked at, how many break the rules, and how many of those are new.

    `named` are the newest of them; `writers` and `lacks` count all.
    """

    snapshots: int
    violations: int
    new: int
    writers: Mapping[str, int]
    lacks: Mapping[str, int]
    named: tuple[Violation, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "snapshots": self.snapshots,
            "violations": self.violations,
            "new": self.new,
            "writers": dict(self.writers),
            "lacks": dict(self.lacks),
            "named": [one.as_json() for one in self.named],
        }


def check(
    rows: Iterable[Committed],
    rules: Requirements,
    since: datetime | None = None,
    last: datetime | None = None,
    operations: Collection[str] = OPERATIONS,
) -> Checked:
    """The snapshots since then that break the rules; new ones were made after the check before, if there was one."""
    looked_at, new = 0, 0
    broken: list[tuple[int, Committed, tuple[str, ...]]] = []
    writers: Counter[str] = Counter()
    lacks: Counter[str] = Counter()
    since_ms = since.timestamp() * 1000 if since else None
    last_ms = last.timestamp() * 1000 if last else None
    for row in rows:
        if since_ms is not None and row.committed_ms < since_ms:
            continue
        looked_at += 1
        if found := violations({OPERATION: row.operation, **row.summary}, rules, operations):
            broken.append((row.committed_ms, row, tuple(found)))
            new += last_ms is None or row.committed_ms > last_ms
            writers[writer_of(row.summary)] += 1
            lacks.update(found)
    newest = sorted(broken, key=lambda one: (one[0], one[1].snapshot_id), reverse=True)[:MOST_NAMED]
    named = tuple(
        Violation(row.snapshot_id, _instant(at), row.operation, writer_of(row.summary), words)
        for at, row, words in newest
    )
    return Checked(
        looked_at, len(broken), new, dict(writers.most_common(MOST_WRITERS)), dict(lacks.most_common()), named
    )


def writer_of(summary: Mapping[str, str]) -> str:
    """Who made a commit, as far as it says."""
    if found := summary.get(WRITER, "").strip():
        return found
    for name in _OTHERWISE:
        if value := summary.get(name, "").strip():
            return f"{name} {value}"
    return "unknown"


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
