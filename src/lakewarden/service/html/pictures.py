"""Pictures of the service's pages beside those of the report: columns over days or sizes, and snapshots along a line of time.

Like the report's: inline SVG, classes for colours, and a text of its own for whoever does not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lakewarden.reports.page.pictures import Tick

RIGHT = 24  # half of the last label has to fit
MOST_MOMENTS = 400  # dots of one timeline; more would lie on each other
LABEL_WIDTH = 8.0  # of one letter of a ref's name, in the picture's units


@dataclass(frozen=True, slots=True)
class Column:
    kind: str
    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Upright bars on a common floor, with ticks of both axes, in the picture's own units."""

    width: int
    height: int
    left: int
    columns: tuple[Column, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """One value to draw: its words below (none where there is no room), its height, its words for a pointer."""

    below: str
    value: float
    label: str


def columns(
    bars: Sequence[Bar],
    ticks: Sequence[tuple[float, str]],
    *,
    width: int = 1000,
    height: int = 220,
    left: int = 76,
    bottom: int = 30,
    top: int = 12,
) -> Columns:
    """Values from left to right; a value that is not zero is never too low to be seen."""
    highest = max([bar.value for bar in bars] + [at for at, _ in ticks] + [1.0])
    floor, step = height - bottom, (width - left - RIGHT) / max(1, len(bars))
    thick = min(56.0, step * 0.72)

    def high(value: float) -> float:
        return round(max(3.0, (floor - top) * value / highest) if value > 0 else 0.0, 1)

    middles = [left + step * (place + 0.5) for place in range(len(bars))]
    drawn = tuple(
        Column(
            "column" if bar.value > 0 else "none",
            round(middle - thick / 2, 1),
            round(floor - (high(bar.value) or 2), 1),
            round(thick, 1),
            high(bar.value) or 2,
            bar.label,
        )
        for middle, bar in zip(middles, bars, strict=True)
    )
    across = tuple(Tick(round(at, 1), bar.below) for at, bar in zip(middles, bars, strict=True) if bar.below)
    up = tuple(Tick(round(floor - (floor - top) * at / highest, 1), words) for at, words in ticks)
    return Columns(width, height, left, drawn, across, up)


def counts(highest: float) -> list[float]:
    """Three or four round heights for numbers of things: 0, 20, 40, 60."""
    if highest <= 0:
        return [0.0]
    step = 1.0
    for factor in _factors():
        step = factor
        if step * 4 >= highest:
            break
    return [step * place for place in range(int(highest / step) + 2) if step * place <= highest * 1.25]


def _factors() -> Iterable[float]:
    power = 1.0
    while True:
        yield from (power, power * 2, power * 5)
        power *= 10


@dataclass(frozen=True, slots=True)
class Moment:
    """A dot on the line of time."""

    x: float
    label: str
    head: bool = False


@dataclass(frozen=True, slots=True)
class RefMark:
    """A branch or tag above its snapshot; `y` keeps names that would touch apart."""

    x: float
    y: float
    name: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Timeline:
    width: int
    height: int
    line: float
    moments: tuple[Moment, ...]
    refs: tuple[RefMark, ...]
    across: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot: when it was made, its words, and the names of the refs that lead to it."""

    at: datetime
    label: str
    refs: tuple[str, ...] = ()


def timeline(snapshots: Sequence[Seen], *, width: int = 1000, row: int = 20) -> Timeline | None:
    """Snapshots from the oldest to the newest. None for fewer than one."""
    if not snapshots:
        return None
    ordered = sorted(snapshots, key=lambda one: one.at)
    begin, end = ordered[0].at, ordered[-1].at
    span = (end - begin) or timedelta(seconds=1)
    edge = 24.0

    def place(at: datetime) -> float:
        return round(edge + (width - 2 * edge) * ((at - begin) / span), 1)

    kept = [one for one in ordered if one.refs]
    others = [one for one in ordered if not one.refs]
    step = max(1, -(-len(others) // MOST_MOMENTS))
    marks, rows = _refs([(place(one.at), name) for one in kept for name in one.refs], width)
    line = 14.0 + rows * row
    moments = [Moment(place(one.at), one.label) for one in others[::step]]
    moments += [Moment(place(one.at), one.label, head=True) for one in kept]
    refs = tuple(RefMark(x, 16.0 + level * row, name, anchor) for x, level, name, anchor in marks)
    return Timeline(width, int(line) + 40, line, tuple(moments), refs, _days(begin, end, place))


def _refs(marks: Sequence[tuple[float, str]], width: int) -> tuple[list[tuple[float, int, str, str]], int]:
    """Each name on the lowest row on which it touches no other; names near the right edge end at their dot."""
    free: list[list[tuple[float, float]]] = []
    found: list[tuple[float, int, str, str]] = []
    for x, name in sorted(marks):
        short = name if len(name) <= 40 else f"{name[:39]}…"
        wide = LABEL_WIDTH * len(short) + 12
        anchor = "end" if x > width / 2 else "start"
        taken = (x - wide, x + 4) if anchor == "end" else (x - 4, x + wide)
        level = next((n for n, row in enumerate(free) if all(taken[1] < a or taken[0] > b for a, b in row)), len(free))
        if level == len(free):
            free.append([])
        free[level].append(taken)
        found.append((x, level, short, anchor))
    return found, len(free)


def _days(begin: datetime, end: datetime, place: Callable[[datetime], float]) -> tuple[Tick, ...]:
    instants = [begin + (end - begin) * part / 4 for part in range(5)] if end > begin else [begin]
    words = [f"{at:%Y-%m-%d}" for at in instants]
    if len(set(words)) < len(words):
        words = [f"{at:%m-%d %H:%M}" for at in instants]
    ticks = [Tick(min(960.0, max(44.0, place(at))), word) for at, word in zip(instants, words, strict=True)]
    return tuple(ticks[:1]) + tuple(later for earlier, later in pairwise(ticks) if later.label != earlier.label)
