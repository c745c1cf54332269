"""When scheduled runs may begin: parts of a day, in UTC, such as "20:00-06:00, 12:00-13:00". Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta

_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|(24):(00))")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of each day, in minutes after midnight; one that ends before it begins goes over midnight."""

    begins: int
    ends: int

    def holds(self, moment: datetime) -> bool:
        at = moment.hour * 60 + moment.minute
        if self.begins < self.ends:
            return self.begins <= at < self.ends
        return at >= self.begins or at < self.ends


def windows_of(text: str) -> tuple[Window, ...]:
    """The parts of a day that a text spells. Raises ValueError."""
    found = []
    for part in text.split(","):
        match = _WINDOW.fullmatch(part.strip())
        if match is None:
            raise ValueError(f'{part.strip()!r} is not a part of a day such as "20:00-06:00"')
        first = int(match[1]) * 60 + int(match[2])
        last = int(match[3] or match[5]) * 60 + int(match[4] or match[6])
        if first == last:
            raise ValueError(f"{part.strip()!r} begins when it ends")
        found.append(Window(first, last))
    return tuple(found)


def opens(windows: tuple[Window, ...], moment: datetime) -> datetime:
    """The first moment, not before this one, that one of the windows holds; the moment itself where there are none."""
    if not windows or any(window.holds(moment) for window in windows):
        return moment
    midnight = datetime.combine(moment.date(), time(), moment.tzinfo)
    begins = [midnight + timedelta(minutes=window.begins) for window in windows]
    return min(begin if begin >= moment else begin + _DAY for begin in begins)
