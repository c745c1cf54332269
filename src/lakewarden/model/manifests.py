"""What rewriting manifests would gain: how many of them a query for one partition opens, now and with each partition in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakewarden.model.errors import Refusal
from lakewarden.model.table import Pointer, TableState

SAMPLED = 200  # partitions asked for, of a table that has more

Bound = int | str
Point = tuple[Bound | None, ...]


@dataclass(frozen=True, slots=True)
class ManifestPolicy:
    """When the manifests of one table are worth rewriting."""

    enabled: bool
    dry_run: bool
    min_manifests: int
    min_gain: float

    @staticmethod
    def of(values: Mapping[str, Any]) -> ManifestPolicy:
        """The policy that these values of `[manifest_rewrite]` spell, under the user's names and units."""
        return ManifestPolicy(values["enabled"], values["dry_run"], values["min_manifests"], values["min_gain"])

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {"dry_run": self.dry_run, "min_manifests": self.min_manifests, "min_gain": self.min_gain}


@dataclass(frozen=True, slots=True)
class Range:
    """The values of one partition field within a manifest; None for a bound that is not known, which holds anything."""

    lower: Bound | None
    upper: Bound | None
    nulls: bool

    def holds(self, value: Bound | None) -> bool:
        if value is None:
            return self.nulls
        if self.lower is None or self.upper is None:
            return True
        try:
            return self.lower <= value <= self.upper  # type: ignore[operator]
        except TypeError:
            return True


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """One manifest: its spec, whether it lists data or deletes, its size, and what partitions it spans.

    One that lists nothing live (`empty`) is opened by no query, and goes when the others of its spec are rewritten.
    """

    spec: int
    content: int
    bytes: int
    ranges: tuple[Range, ...]
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Clustering:
    """The manifests of one spec, as they are and as they would be; `going` are those that are replaced."""

    spec: int
    manifests: int
    opened: float
    manifests_after: int
    opened_after: float
    going: int

    @property
    def gain(self) -> float:
        """The share of manifests that a query for one partition would not open any more."""
        return max(0.0, 1 - self.opened_after / self.opened) if self.opened else 0.0


@dataclass(frozen=True, slots=True)
class ManifestSurvey:
    """What rewriting would do for one table; `left` says why it is left alone."""

    specs: tuple[Clustering, ...] = ()
    left: str | None = None
    refusal: Refusal | None = None

    @property
    def whole(self) -> Clustering:
        """All specs together: a query has to look at the files of each."""
        return Clustering(
            -1,
            sum(one.manifests for one in self.specs),
            sum(one.opened for one in self.specs),
            sum(one.manifests_after for one in self.specs),
            sum(one.opened_after for one in self.specs),
            sum(one.going for one in self.specs),
        )


def survey_of(lines: Iterable[ManifestLine], target_bytes: int, policy: ManifestPolicy) -> ManifestSurvey:
    """Which specs to rewrite; every one of the survey's is worth it, or it says why the table is left alone."""
    groups: dict[int, dict[int, list[ManifestLine]]] = {}
    for line in lines:
        groups.setdefault(line.spec, {}).setdefault(line.content, []).append(line)
    every = tuple(_clustering(spec, contents.values(), target_bytes) for spec, contents in sorted(groups.items()))
    whole = ManifestSurvey(every).whole
    if whole.manifests < policy.min_manifests:
        noun = "manifest" if whole.manifests == 1 else "manifests"
        few = f"it has {whole.manifests} {noun}; min_manifests is {policy.min_manifests}"
        return ManifestSurvey(every, left=few)
    if whole.gain < policy.min_gain:
        opened = (
            f"a query for one partition opens {whole.opened:.1f} manifests, and {whole.opened_after:.1f} afterwards"
        )
        return ManifestSurvey(every, left=f"{opened}; min_gain is {policy.min_gain:.0%}")
    return ManifestSurvey(tuple(one for one in every if one.gain > 0))


def _clustering(spec: int, contents: Iterable[Sequence[ManifestLine]], target_bytes: int) -> Clustering:
    manifests = going = 0
    opened = after = opened_after = 0.0
    for lines in contents:
        count = math.ceil(sum(line.bytes for line in lines) / target_bytes) or 1
        manifests += len(lines)
        # One that would be written as it is stays.
        going += len(lines) if len(lines) > 1 or count > 1 else 0
        if not (live := [line for line in lines if not line.empty]):
            continue
        points = _points(live)
        asked = points[:: math.ceil(len(points) / SAMPLED)]
        after += min(count, len(live))
        opened += sum(_opened(live, point) for point in asked) / len(asked)
        # In order, each manifest but the first begins within a partition at worst, which is then in two of them.
        opened_after += min(count, 1 + (count - 1) / len(points), len(live))
    return Clustering(spec, manifests, opened, int(after), opened_after, going)


def _points(lines: Sequence[ManifestLine]) -> list[Point]:
    """Partitions that are known to be there, or near ones that are: the corners of what each manifest spans."""
    found: dict[Point, None] = {}
    for line in lines:
        found[tuple(item.lower for item in line.ranges)] = None
        found[tuple(item.upper for item in line.ranges)] = None
    return list(found)


def _opened(lines: Sequence[ManifestLine], point: Point) -> int:
    return sum(
        all(found.holds(value) or value is None for found, value in zip(line.ranges, point, strict=True))
        for line in lines
    )


@dataclass(frozen=True, slots=True)
class JavaTable:
    """A table as Iceberg's Java library opens it: by its metadata file, through a FileIO of these properties.

    `commits` are those of ours that the table has already, by the id that each was made under, with what to record.
    """

    name: str
    metadata_location: str
    properties: Mapping[str, str] = field(repr=False)
    commits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class ManifestRewriter(Protocol):
    """How a format has its manifests rewritten."""

    def survey(self, state: TableState, policy: ManifestPolicy) -> ManifestSurvey:
        """What it would gain. What cannot be understood comes back refused, never raised."""
        ...

    def open(self, pointer: Pointer, uuid: str) -> JavaTable:
        """The table as it is now. Raises PlanOutdatedError if it is another one."""
        ...

    def commit(self, opened: JavaTable, snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the snapshot current, once it is proven to hold what its parent holds; what to record.

        Raises CommitConflictError if the table moved on since it was opened, InvariantViolationError for a snapshot
        that lost or gained anything, before it is visible.
        """
        ...
