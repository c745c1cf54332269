"""A table's options as Paimon reads them: whole numbers, truth, sizes such as "256 mb", and lengths of time such as "1 h"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from lakewarden.model.errors import ConfigError

_LENGTH = re.compile(r"([0-9]+)\s*(.*)", re.DOTALL)
_UNITS = {
    timedelta(days=1): ("d", "day", "days"),
    timedelta(hours=1): ("h", "hour", "hours"),
    timedelta(minutes=1): ("min", "m", "minute", "minutes"),
    timedelta(seconds=1): ("s", "sec", "secs", "second", "seconds"),
    timedelta(milliseconds=1): ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    timedelta(microseconds=1): ("µs", "micro", "micros", "microsecond", "microseconds"),
}
_SIZES = {
    1: ("", "b", "bytes"),
    1 << 10: ("k", "kb", "kibibytes"),
    1 << 20: ("m", "mb", "mebibytes"),
    1 << 30: ("g", "gb", "gibibytes"),
    1 << 40: ("t", "tb", "tebibytes"),
}
_SIZE_OF = {label: size for size, labels in _SIZES.items() for label in labels}
_NANOSECONDS = ("ns", "nano", "nanos", "nanosecond", "nanoseconds")
_UNIT_OF = {label: unit for unit, labels in _UNITS.items() for label in labels}
_HINT = "Correct the table's option; until then this table is left alone and the others go on."


def bad_option(key: str, text: object, wanted: str) -> ConfigError:
    """The refusal of a table whose option cannot be understood: guessing what somebody meant would be unsafe."""
    return ConfigError(f"table option {key} = {text!r} {wanted}; nothing of this table is touched", hint=_HINT)


def whole(options: Mapping[str, str], key: str, default: int | None = None) -> int | None:
    """A whole number. Raises ConfigError for anything else."""
    text = options.get(key)
    if text is None:
        return default
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise bad_option(key, text, "is not a whole number")
    return int(text)


def truth(options: Mapping[str, str], key: str, default: bool = False) -> bool:
    """`true` or `false`, in any case. Raises ConfigError for anything else."""
    text = options.get(key)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise bad_option(key, text, "is neither true nor false")
    return text.strip().lower() == "true"


def memory(options: Mapping[str, str], key: str, default: int) -> int:
    """A number of bytes. Raises ConfigError for anything else, and for none at all."""
    text = options.get(key)
    if text is None:
        return default
    parts = _LENGTH.fullmatch(text.strip())
    unit = _SIZE_OF.get(parts[2].strip().lower()) if parts is not None else None
    if parts is None or unit is None or len(parts[1]) > 18 or int(parts[1]) < 1:
        raise bad_option(key, text, 'is not a size such as "256 mb"')
    return int(parts[1]) * unit


def duration(options: Mapping[str, str], key: str) -> timedelta | None:
    """A length of time; None if the option is not set. Raises ConfigError for anything else."""
    text = options.get(key)
    if text is None:
        return None
    found = parse_duration(text)
    if found is None:
        raise bad_option(key, text, 'is not a length of time such as "1 h", "30 min" or "7 d"')
    return found


def parse_duration(text: str) -> timedelta | None:
    """A number and a unit, as Paimon writes them ("1 h", "30min"; no unit: milliseconds). None for anything else."""
    parts = _LENGTH.fullmatch(text.strip())
    if parts is None or len(parts[1]) > 19:
        return None
    number, label = int(parts[1]), parts[2].strip().lower()
    if label in _NANOSECONDS:
        number, label = number // 1000, "µs"
    unit = _UNIT_OF.get(label)
    if unit is None:
        return None
    # Paimon's longest length is beyond what a timedelta holds; both mean "for ever".
    return number * unit if number <= timedelta.max // unit else timedelta.max


def in_words(length: timedelta) -> str:
    """A length of time in the largest unit that says it exactly, as Paimon writes it."""
    for unit, labels in _UNITS.items():
        if length and length % unit == timedelta(0):
            return f"{length // unit} {labels[0] or 'ms'}"
    return "0 ms"
