"""Clocks and counts: repeat a piece of work, take the median, split it by stage, say how loaded the machine was."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Sample:
    """One repetition: its seconds, and the seconds of each of its stages."""

    seconds: float
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figures:
    """One side of a comparison: the median repetition, and all of them."""

    value: float
    stages: dict[str, float]
    samples: tuple[float, ...]

    @staticmethod
    def of(samples: Sequence[Sample], factor: float = 1.0) -> Figures:
        ordered = sorted(samples, key=lambda sample: sample.seconds)
        middle = ordered[(len(ordered) - 1) // 2]
        return Figures(
            statistics.median_low([sample.seconds for sample in samples]) * factor,
            {name: seconds * factor for name, seconds in middle.stages.items()},
            tuple(sample.seconds * factor for sample in samples),
        )

    def with_stages(self, more: Mapping[str, float]) -> Figures:
        return replace(self, stages={**self.stages, **more})


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `ratio` says how often ours goes into the other, or as `unit` explains."""

    name: str
    work: str
    ours: Figures
    peer: Figures
    ratio: float
    target: float
    load: tuple[float, float]
    unit: str = "s"
    at_most: bool = False
    note: str = ""

    @property
    def met(self) -> bool:
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target


class Stopwatch:
    """A `Progress` that remembers when each stage began."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._marks: list[tuple[str, float]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._marks or self._marks[-1][0] != stage:
            self._marks.append((stage, time.perf_counter()))

    def sample(self) -> Sample:
        end = time.perf_counter()
        stages: dict[str, float] = {}
        following = [at for _, at in self._marks[1:]] + [end]
        for (name, at), until in zip(self._marks, following, strict=True):
            stages[name] = stages.get(name, 0.0) + until - at
        stages.pop("done", None)
        return Sample(end - self._began, stages)


def timed(work: Callable[[], object]) -> Sample:
    began = time.perf_counter()
    work()
    return Sample(time.perf_counter() - began)


def load() -> float:
    """Processes that want a core, over the last minute: above the number of cores, times are disturbed."""
    return round(os.getloadavg()[0], 1)
