"""The time that partition values spell: `$column` patterns, and the patterns of Java's DateTimeFormatter."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from lakewarden.formats.paimon.partition_values import Column, Value, spelled
from lakewarden.model.errors import ConfigError

Parse = Callable[[str], datetime | None]

_DEFAULT = re.compile(
    r"([0-9]{1,10})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
)
_DEFAULT_WORDS = "year-month-day[ hour:minute:second]"
# How often a letter may stand: for a number of exactly that length, and for one of that length or longer.
_EXACT = {"y": (2, 4), "u": (2, 4), **dict.fromkeys("MdHms", (2,)), "S": range(1, 10)}
_OPEN = {"y": (1, 3), "u": (1, 3), **dict.fromkeys("MdHms", (1,)), "S": ()}
_TOKEN = re.compile(r"''|'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_HINT = (
    "Use the letters y u M d H m s S, quoted text and [optional parts] in partition.timestamp-formatter or "
    "partition_expiry.timestamp_formatter, or the strategy update-time."
)


@dataclass(frozen=True, slots=True)
class PartitionClock:
    """How the values of one table's partitions spell a time, on the wall clock of `zone`. Build it with `of`."""

    columns: tuple[Column, ...]
    pattern: str | None
    formatter: str | None
    zone: tzinfo
    parse: Parse

    @staticmethod
    def of(columns: Sequence[Column], pattern: str | None, formatter: str | None, zone: tzinfo) -> PartitionClock:
        """Raises ConfigError for a formatter that has a letter nobody knows, or no day to find."""
        parse = parse_default if formatter is None else compile_formatter(formatter)
        return PartitionClock(tuple(columns), pattern, formatter, zone, parse)

    def read(self, values: Sequence[Value]) -> datetime | str:
        """The wall clock time that the values spell, or in words why they spell none."""
        found = self._typed(values)
        if isinstance(found, datetime):
            return found
        missing = [column.name for column, value in zip(self.columns, values, strict=True) if value is None]
        used = [name for name in missing if self.pattern is not None or name == self.columns[0].name]
        if used:
            return f"{used[0]} is null"
        text = spelled(values[0], self.zone) if self.pattern is None else self._filled(values)
        moment = self.parse(text)
        if moment is None:
            return f"{text!r} is no time of the form {self.formatter or _DEFAULT_WORDS}"
        return moment

    def _typed(self, values: Sequence[Value]) -> datetime | None:
        """The value of the one column that counts, where its type is already a date or a time."""
        named = self.columns[0].name if self.pattern is None else self.pattern.removeprefix("$")
        for column, value in zip(self.columns, values, strict=True):
            if column.name != named:
                continue
            if isinstance(value, datetime):
                return value if value.tzinfo is None else value.astimezone(self.zone).replace(tzinfo=None)
            if isinstance(value, date):
                return datetime.combine(value, time())
        return None

    def _filled(self, values: Sequence[Value]) -> str:
        texts = {c.name: spelled(v, self.zone) for c, v in zip(self.columns, values, strict=True)}
        # The longest name first: $dt must not take the place of $dt1.
        names = "|".join(re.escape(name) for name in sorted(texts, key=len, reverse=True))
        return re.sub(rf"\$({names})", lambda found: texts[found[1]], self.pattern or "")


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
