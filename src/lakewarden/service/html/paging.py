"""Pages of long lists: links to the earlier and later page, and to another order, that keep what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from markupsafe import Markup, escape

PAGE = 50
FURTHEST = 10_000_000  # a page beyond that is nobody's


def place_of(text: str | None) -> int:
    """The offset that an address asks for; what is no number is the beginning."""
    return min(int(text), FURTHEST) if text and text.isdecimal() and len(text) < 12 else 0


def address(path: str, asked: Mapping[str, object]) -> Markup:
    """A path with what was asked for, ready for a page: it is never cut, however long; what is empty is left out."""
    said = {name: str(value) for name, value in asked.items() if value not in (None, "", 0)}
    return escape(f"{path}?{urlencode(said)}" if said else path)


@dataclass(frozen=True, slots=True)
class Pages:
    """Where a page of a list stands: the first and last row of it, of how many, and the pages beside it."""

    first: int
    last: int
    total: int
    earlier: Markup | None
    later: Markup | None

    @staticmethod
    def of(path: str, asked: Mapping[str, object], offset: int, shown: int, total: int, limit: int = PAGE) -> Pages:
        earlier = address(path, {**asked, "offset": max(0, offset - limit)}) if offset else None
        later = address(path, {**asked, "offset": offset + limit}) if offset + shown < total else None
        return Pages(offset + 1 if shown else 0, offset + shown, total, earlier, later)


@dataclass(frozen=True, slots=True)
class Sorting:
    """The order of a list, and the address of the same list in another order."""

    path: str
    asked: Mapping[str, object]
    by: str
    down: bool

    def href(self, name: str) -> Markup:
        down = not self.down if name == self.by else name != "identifier" and name != "health"
        return address(self.path, {**self.asked, "sort": name, "down": 1 if down else "", "offset": ""})
