"""The time that a text spells: the default form, and the patterns of Java's DateTimeFormatter. For partitions of any format."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping
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


# From the coarsest to the finest; a text that spells no more than its letter says covers a whole unit of it.
UNITS = "yMdHms"
_LENGTHS = {"d": timedelta(days=1), "H": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}


def filled(pattern: str, texts: Mapping[str, str]) -> str:
    """The pattern with each `$column` replaced by its text."""
    return columns_in(texts).sub(lambda found: texts[found[1]], pattern)


def columns_in(names: Iterable[str]) -> re.Pattern[str]:
    """What finds these columns in a pattern. The longest name first: $dt must not take the place of $dt1."""
    return re.compile(rf"\$({'|'.join(re.escape(name) for name in sorted(names, key=len, reverse=True))})")


def unit_of(text: str, formatter: str | None, pattern: str | None = None, names: Iterable[str] = ()) -> str:
    """The finest of UNITS that the columns themselves spell in this text: what one value covers. In doubt a coarser one."""
    if formatter is None:
        finest = "s" if ":" in text else "d"
    else:
        letters = {token[1] for token in _TOKEN.finditer(formatter) if token[1]}
        finest = next((unit for unit in "smH" if unit in letters), "d")
        finest = "d" if "[" in formatter or "H" not in letters else finest
    # `$month-01` and `$dt $hour:00:00`: what the pattern itself says behind the last column is not the value's.
    fixed = 0 if pattern is None else sum(map(str.isdigit, columns_in(names).split(pattern)[-1]))
    return UNITS[max(0, UNITS.index(finest) - (fixed + 1) // 2)]


def end_of(moment: datetime, unit: str) -> datetime:
    """The first instant behind the unit that `moment` lies in. Raises OverflowError or ValueError beyond the calendar."""
    if unit == "y":
        return datetime(moment.year + 1, 1, 1)
    if unit == "M":
        return datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1)
    midnight = datetime(moment.year, moment.month, moment.day)
    length = _LENGTHS[unit]
    return midnight + ((moment - midnight) // length + 1) * length


def parse_default(text: str) -> datetime | None:
    """`2024-1-31`, with ` 23:59:59` or a fraction of a second behind it. Too many days or hours roll over."""
    found = _DEFAULT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        first = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
        moment = first + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
        return moment + timedelta(microseconds=_microseconds(found[7] or "0"))
    except (ValueError, OverflowError):
        return None


def compile_formatter(pattern: str) -> Parse:
    """A parser of one DateTimeFormatter pattern. Raises ConfigError for what is not covered."""
    letters: list[str] = []
    expression = re.compile("".join(_expressions(pattern, letters)))
    if not {"M", "d"} <= set(letters) or not {"y", "u", "yy"} & set(letters):
        raise _unusable(pattern, "has no year, month and day to find")

    def parse(text: str) -> datetime | None:
        found = expression.fullmatch(text)
        if found is None:
            return None
        parts: dict[str, str] = {}
        for letter, part in zip(letters, found.groups(), strict=True):
            if part is not None and parts.setdefault(letter, part) != part:
                return None
        return _resolved(parts)

    return parse


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


def _resolved(parts: dict[str, str]) -> datetime | None:
    """The time that the parts make. The 31st of a shorter month is its last day, as Java has it."""
    years = {int(parts[letter]) for letter in "yu" if letter in parts}
    years |= {2000 + int(parts["yy"])} if "yy" in parts else set()
    if len(years) != 1 or "M" not in parts or "d" not in parts:
        return None
    year, month, day = years.pop(), int(parts["M"]), int(parts["d"])
    hour, minute, second = int(parts.get("H", 0)), int(parts.get("m", 0)), int(parts.get("s", 0))
    fraction = _microseconds(parts.get("S", "0"))
    if "H" not in parts or ("m" not in parts and {"s", "S"} & set(parts)) or ("s" not in parts and "S" in parts):
        hour = minute = second = fraction = 0  # no time of day can be made of these: Java falls back to the date
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
