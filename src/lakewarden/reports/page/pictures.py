"""Pictures as inline SVG, made here: no script, no font, no file beside the page. Shapes carry classes, the page the colours.

Every picture has a text of its own for whoever does not see it, and no fact that is not also in a table of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RIGHT = 36  # of a curve: half of the last label has to fit

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a bar: a class that gives its colour, where it begins, how wide it is, and its words."""

    kind: str
    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points, the area below it, and the ticks of both axes, in the picture's own units."""

    width: int
    height: int
    left: int
    bottom: int
    right: int
    line: str
    area: str
    points: tuple[Point, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def stacked(parts: Sequence[tuple[str, int, str]], width: float = 1000.0, gap: float = 3.0) -> list[Segment]:
    """One bar of several parts (class, count, words). A part that is not zero is never too thin to be seen."""
    there = [part for part in parts if part[1] > 0]
    if not there:
        return []
    room = width - gap * (len(there) - 1)
    least = min(6.0, room / len(there))
    total = sum(count for _, count, _ in there)
    wanted = [max(least, room * count / total) for _, count, _ in there]
    # What the thin parts took, the thick ones give.
    surplus = sum(wanted) - room
    thick = sum(one - least for one in wanted)
    widths = [one - surplus * (one - least) / thick if thick else one for one in wanted]
    found: list[Segment] = []
    x = 0.0
    for (kind, _, label), one in zip(there, widths, strict=True):
        found.append(Segment(kind, round(x, 1), round(one, 1), label))
        x += one + gap
    return found


def curve(
    values: Sequence[tuple[str, float]],
    ticks: Sequence[tuple[float, str]],
    *,
    width: int = 1000,
    height: int = 260,
    left: int = 76,
    bottom: int = 34,
    top: int = 14,
) -> Curve:
    """Values from left to right, each at the same distance; `ticks` are the heights to draw lines at, the last one is the top."""
    highest = max([value for _, value in values] + [at for at, _ in ticks] + [1.0])
    right = RIGHT
    step = (width - left - right) / max(1, len(values) - 1)
    floor = height - bottom

    def up(value: float) -> float:
        return round(floor - (floor - top) * value / highest, 1)

    points = tuple((round(left + step * place, 1), up(value)) for place, (_, value) in enumerate(values))
    line = " ".join(f"{x},{y}" for x, y in points)
    area = f"{points[0][0]},{floor} {line} {points[-1][0]},{floor}" if points else ""
    across = tuple(Tick(x, label) for (x, _), (label, _) in zip(points, values, strict=True))
    lines = tuple(Tick(up(at), word) for at, word in ticks)
    return Curve(width, height, left, bottom, right, line, area, points, across, lines)


def scale(highest: float) -> list[float]:
    """Three or four round heights, in powers of two as sizes are: 0, 64 MiB, 128 MiB, 192 MiB."""
    if highest <= 0:
        return [0.0]
    step = 1.0
    while step * 4 < highest:
        step *= 2
    return [step * place for place in range(int(highest / step) + 2) if step * place <= highest * 1.25]
