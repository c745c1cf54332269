"""Which of many prefixes a name begins with, found without trying them all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Prefixes:
    """Prefixes in order, each with the next shorter one that it begins with: of `a/` and `a/b/`, `a/` is around `a/b/`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        self._around: list[int] = []
        for place, name in enumerate(self._names):
            above = place - 1
            while above >= 0 and not name.startswith(self._names[above]):
                above = self._around[above]
            self._around.append(above)

    def of(self, name: str) -> str | None:
        """The longest prefix that the name begins with."""
        return next(self.all_of(name), None)

    def all_of(self, name: str) -> Iterator[str]:
        """Every prefix that the name begins with, the longest first."""
        # Whatever lies in order between a prefix of the name and the name itself begins with that prefix too: so the
        # prefixes of a name are all around the last one that is not behind it.
        place = bisect_right(self._names, name) - 1
        while place >= 0:
            if name.startswith(self._names[place]):
                yield self._names[place]
            place = self._around[place]
