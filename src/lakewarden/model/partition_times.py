"""The time that a text spells: the default form, and the patterns of Java's DateTimeFormatter. For partitions of any format."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.model.errors import ConfigError

Parse = Callable[[str], datetime | None]

_DEFAULT = re.compile(
    r"([0-9]{1,10})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
)
DEFAULT_WORDS = "year-month-day[ hour:minute:second]"
# How often a letter may stand: for a number of exactly that length, and for one of that length or longer.
_EXACT = {"y": (2, 4), "u": (2, 4), **dict.fromkeys("MdHms", (2,)), "S": range(1, 10)}
_OPEN = {"y": (1, 3), "u": (1, 3), **dict.fromkeys("MdHms", (1,)), "S": ()}
_TOKEN = re.compile(r"''|'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_HINT = (
    "Use the letters y u M d H m s S, quoted text and [optional parts] in partition.timestamp-formatter or "
    "partition_expiry.timestamp_formatter, or the strategy update-time."
)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A time that a text spells, and where in the text each part of it stands, by the letters y M d H m s."""

    moment: datetime
    places: Mapping[str, tuple[slice, ...]]


@dataclass(frozen=True, slots=True)
class TimeForm:
    """One way to spell a time: an expression with a group for each of the letters, and what their texts make."""

    expression: re.Pattern[str]
    letters: tuple[str, ...]
    resolve: Callable[[Mapping[str, str]], datetime | None]

    def parse(self, text: str) -> datetime | None:
        """The time alone."""
        found = self.read(text)
        return None if found is None else found.moment

    def read(self, text: str) -> Spelled | None:
        """The time and its places; None for a text of another form. What the time was not made of has no place."""
        found = self.expression.fullmatch(text)
        if found is None:
            return None
        parts: dict[str, str] = {}
        places: dict[str, tuple[slice, ...]] = {}
        for group, (letter, part) in enumerate(zip(self.letters, found.groups(), strict=True), start=1):
            if part is None:
                continue
            if parts.setdefault(letter, part) != part:
                return None
            unit = "y" if letter in ("u", "yy") else letter
            places[unit] = (*places.get(unit, ()), slice(*found.span(group)))
        moment = self.resolve(parts)
        if moment is None:
            return None
        timed = _has_time_of_day(parts)
        return Spelled(moment, {unit: at for unit, at in places.items() if timed or unit in "yMd"})


def time_form(formatter: str | None) -> TimeForm:
    """The form of a formatter, or the default one. Raises ConfigError for a formatter that is not covered."""
    if formatter is None:
        return _DEFAULT_FORM
    letters: list[str] = []
    expression = re.compile("".join(_expressions(formatter, letters)))
    if not {"M", "d"} <= set(letters) or not {"y", "u", "yy"} & set(letters):
        raise _unusable(formatter, "has no year, month and day to find")
    return TimeForm(expression, tuple(letters), _resolved)


def parse_default(text: str) -> datetime | None:
    """`2024-1-31`, with ` 23:59:59` or a fraction of a second behind it. Too many days or hours roll over."""
    return _DEFAULT_FORM.parse(text)


def compile_formatter(pattern: str) -> Parse:
    """A parser of one DateTimeFormatter pattern. Raises ConfigError for what is not covered."""
    return time_form(pattern).parse


def _expressions(pattern: str, letters: list[str]) -> Iterator[str]:
    """The pattern as pieces of a regular expression, one group a letter; `letters` names the groups."""
    open_ended = False
    depth = 0
    for token in _TOKEN.finditer(pattern):
        text, letter = token[0], token[1]
        if letter is not None:
            yield _field(pattern, letter, len(text), open_ended)
            letters.append("yy" if text in ("yy", "uu") else letter)
            open_ended = len(text) in _OPEN[letter]
            continue
        open_ended = open_ended and text in "[]"
        if text in "[]":
            depth += 1 if text == "[" else -1
            if depth < 0:
                raise _unusable(pattern, "closes a bracket that was not opened")
            yield "(?:" if text == "[" else ")?"
        elif text in ("{", "}", "#", "'"):
            raise _unusable(pattern, f"has {text!r} where Java takes none")
        else:
            yield re.escape("'" if text == "''" else text[1:-1].replace("''", "'") if text[0] == "'" else text)
    if depth:
        raise _unusable(pattern, "opens a bracket and does not close it")


def _field(pattern: str, letter: str, count: int, after_open_ended: bool) -> str:
    if letter not in _EXACT:
        raise _unusable(pattern, f"has the letter {letter!r}, which is not covered")
    if count in _EXACT[letter]:
        return f"([0-9]{{{count}}})"
    if count not in _OPEN[letter]:
        raise _unusable(pattern, f"has {letter * count!r}, which is not covered")
    if after_open_ended:
        raise _unusable(pattern, "has two numbers of any length next to each other")
    return f"([0-9]{{{count},18}})"


def _rolled(parts: Mapping[str, str]) -> datetime | None:
    """The time that the parts make, where too much of one part is more of the next."""
    year, month, day, hour, minute, second = (int(parts.get(letter, 0)) for letter in "yMdHms")
    try:
        first = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
        moment = first + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
        return moment + timedelta(microseconds=_microseconds(parts.get("S", "0")))
    except (ValueError, OverflowError):
        return None


_DEFAULT_FORM = TimeForm(_DEFAULT, tuple("yMdHmsS"), _rolled)


def _has_time_of_day(parts: Mapping[str, str]) -> bool:
    """Whether hours and what is finer can be made into one; Java falls back to the date where a part between is missing."""
    missing = ("m" not in parts and {"s", "S"} & set(parts)) or ("s" not in parts and "S" in parts)
    return "H" in parts and not missing


def _resolved(parts: Mapping[str, str]) -> datetime | None:
    """The time that the parts make. The 31st of a shorter month is its last day, as Java has it."""
    years = {int(parts[letter]) for letter in "yu" if letter in parts}
    years |= {2000 + int(parts["yy"])} if "yy" in parts else set()
    if len(years) != 1 or "M" not in parts or "d" not in parts:
        return None
    year, month, day = years.pop(), int(parts["M"]), int(parts["d"])
    hour, minute, second = int(parts.get("H", 0)), int(parts.get("m", 0)), int(parts.get("s", 0))
    fraction = _microseconds(parts.get("S", "0"))
    if not _has_time_of_day(parts):
        hour = minute = second = fraction = 0
    try:
        if day <= 31:
            day = min(day, monthrange(year, month)[1])
        return datetime(year, month, day, hour, minute, second) + timedelta(microseconds=fraction)
    except (ValueError, OverflowError):
        return None


def _microseconds(digits: str) -> int:
    """A fraction of a second, rounded up: a partition must never look older than it is."""
    return -(-int(digits.ljust(9, "0")) // 1000)


def _unusable(pattern: str, why: str) -> ConfigError:
    return ConfigError(f"timestamp formatter {pattern!r} {why}; no partition of this table is dropped", hint=_HINT)
