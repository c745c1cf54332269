"""When the period is over that a partition's values spell: never before the last instant that they could mean.

Only what the columns say counts. What a pattern adds (`01-$month-$year`) stands for a whole month, wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.model.partition_times import Spelled, TimeForm

# From the coarsest to the finest.
UNITS = "yMdHms"
# A year of fewer digits is more likely one of this century than of the first.
FIRST_YEAR = 1000
_LENGTHS = {"d": timedelta(days=1), "H": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}


@dataclass(frozen=True, slots=True)
class Filled:
    """A text put together from columns and constants: `own` says of each character whether a column spelled it."""

    text: str
    own: tuple[bool, ...]

    @staticmethod
    def of_column(text: str) -> Filled:
        return Filled(text, (True,) * len(text))


def filled(pattern: str, texts: Mapping[str, str]) -> Filled:
    """The pattern with each `$column` replaced by its text.

    A column that stands there once more says nothing new: `$year-$month-$month` names no day.
    """
    text, at = "", 0
    own: list[bool] = []
    seen: set[str] = set()
    for found in columns_in(texts).finditer(pattern):
        constant, value = pattern[at : found.start()], texts[found[1]]
        text += constant + value
        own += [False] * len(constant) + [found[1] not in seen] * len(value)
        seen.add(found[1])
        at = found.end()
    return Filled(text + pattern[at:], (*own, *[False] * len(pattern[at:])))


def columns_in(names: Iterable[str]) -> re.Pattern[str]:
    """What finds these columns in a pattern. The longest name first: $dt must not take the place of $dt1."""
    return re.compile(rf"\$({'|'.join(re.escape(name) for name in sorted(names, key=len, reverse=True))})")


def end_of_spelled(form: TimeForm, found: Filled, words: str) -> datetime | str:
    """The first instant behind what the columns spell, or why there is none that is certain."""
    spelled = form.read(found.text)
    if spelled is None:
        return f"{found.text!r} is no time of the form {words}"
    if any(int(found.text[place]) == 0 for unit in "Md" for place in spelled.places[unit]):
        # It would roll back into the month before, while the values may well mean the one behind.
        return f"{found.text!r} has a month or a day 0"
    if spelled.moment.year < FIRST_YEAR:
        return f"{found.text!r} is of the year {spelled.moment.year}"
    unit = unit_of(spelled, found.own)
    if unit is None:
        return f"the year of {found.text!r} is not a column's"
    try:
        return end_of(spelled.moment, unit)
    except (ValueError, OverflowError):
        return f"{found.text!r} is beyond the calendar"


def unit_of(spelled: Spelled, own: tuple[bool, ...]) -> str | None:
    """The finest of UNITS that the columns spell together with every coarser one; None if not even the year."""
    finest = None
    for unit in UNITS:
        if not any(_ends_in_column(own[place]) for place in spelled.places.get(unit, ())):
            break
        finest = unit
    return finest


def end_of(moment: datetime, unit: str) -> datetime:
    """The first instant behind the unit that `moment` lies in. Raises OverflowError or ValueError beyond the calendar."""
    if unit == "y":
        return datetime(moment.year + 1, 1, 1)
    if unit == "M":
        return datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1)
    midnight = datetime(moment.year, moment.month, moment.day)
    length = _LENGTHS[unit]
    return midnight + ((moment - midnight) // length + 1) * length


def _ends_in_column(own: tuple[bool, ...]) -> bool:
    """Whether constants only lead a number (`20$yy`): behind a column's digits (`$decade0`) they stand for all others."""
    return own[-1] and sorted(own) == list(own)
