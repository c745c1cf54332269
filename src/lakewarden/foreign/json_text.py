"""JSON that others wrote, read within bounds: so many bytes, so deep, whole numbers of 64 bits, every name once.

A document beyond the bounds may still be somebody's table, so it is refused by a name of its own: it is not garbage.
What is inside the bounds can be walked, compared, written into a database and written back without a surprise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from lakewarden.foreign.unpack import GZIP_MAGIC, TooMuchError, gunzip
from lakewarden.model.errors import BoundsError, UnreadableMetadataError

# A table of 100,000 snapshots has about 100 MB of metadata.
MOST_BYTES = 128 << 20
# Three bytes (`[],`) become a hundred in memory, so values are counted too. A snapshot has about twenty-five.
MOST_VALUES = 8_000_000
# A struct in a struct takes three levels of a schema.
DEEPEST = 200

# The earliest and the latest instant that has a date, in milliseconds.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
LEAST, MOST = -(2**63), 2**63 - 1

_LONGEST_NUMBER = 20
_NESTED = frozenset([dict, list])
_ODD_ESCAPE = re.compile(r"\\u(0000|[dD][89a-fA-F])")


class _BeyondError(ValueError):
    """A value that JSON allows and the bounds do not."""


def read_object(
    data: bytes, uri: str, *, most_bytes: int = MOST_BYTES, most_values: int = MOST_VALUES
) -> dict[str, Any]:
    """A JSON object, unzipped if need be.

    Raises UnreadableMetadataError for what is no JSON object, BoundsError for one that is beyond the bounds.
    """
    found = read_json(data, uri, most_bytes=most_bytes, most_values=most_values)
    if not isinstance(found, dict):
        raise UnreadableMetadataError(f"{uri} is not a JSON object; nothing was touched")
    return found


def read_json(data: bytes, uri: str, *, most_bytes: int = MOST_BYTES, most_values: int = MOST_VALUES) -> Any:
    """Any JSON value. Raises as `read_object` does."""
    try:
        text = _text(data, most_bytes)
        if (values := text.count(",") + text.count("[") + text.count("{")) > most_values:
            raise _BeyondError(f"it may have {values:,} values, more than {most_values:,}")
        found = _DECODER.decode(text)
        _check_depth(found)
        if _ODD_ESCAPE.search(text):
            _check_strings(found)
    except (_BeyondError, TooMuchError) as error:
        raise BoundsError(f"{uri} is beyond what is read of one file ({error}); nothing was touched") from error
    except RecursionError as error:
        raise BoundsError(f"{uri} is nested too deeply to be read; nothing was touched") from error
    except (ValueError, OSError) as error:
        raise UnreadableMetadataError(f"{uri} is not readable metadata ({error}); nothing was touched") from error
    return found


def integer(value: object) -> int:
    """A whole number of 64 bits, as the formats write their ids and counts. Raises TypeError or ValueError.

    A fraction, a truth or a text in its place is no number: `int()` would make one of each.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{_shown(value)} is not a whole number")
    if not LEAST <= value <= MOST:
        raise ValueError(f"{_shown(value)} does not fit into 64 bits")
    return value


def integer_or_none(value: object) -> int | None:
    return None if value is None else integer(value)


def integer_text(value: object) -> int:
    """A whole number that the format writes as text, or as a number. Raises TypeError or ValueError."""
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
            raise ValueError(f"{_shown(value)} is not a whole number")
        return integer(int(value))
    return integer(value)


def instant_ms(value: object) -> int:
    """Milliseconds since the epoch at which there is a date. Raises TypeError or ValueError."""
    found = integer(value)
    if not FIRST_MS <= found <= LAST_MS:
        raise ValueError(f"{found} ms is no instant that has a date")
    return found


def _text(data: bytes, most_bytes: int) -> str:
    """The text, unpacked. Strictly UTF-8: Python's own reader lets halves of characters through."""
    if data.startswith(GZIP_MAGIC):
        data = gunzip(data, most_bytes)
    if len(data) > most_bytes:
        raise _BeyondError(f"it has {len(data):,} bytes, more than {most_bytes:,}")
    return data.decode("utf-8")


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER or not LEAST <= (found := int(text)) <= MOST:
        raise _BeyondError(f"the number {_shown(text)} does not fit into 64 bits")
    return found


def _fraction(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise _BeyondError(f"the number {_shown(text)} is too large")
    return found


def _constant(text: str) -> float:
    raise _BeyondError(f"{text} is not a number that JSON has")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ in which of two equal names they believe, so neither is believed."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _BeyondError(f"an object names {_shown(twice)} twice")
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_number, parse_float=_fraction, parse_constant=_constant
)


def _check_depth(found: Any) -> None:
    """What walks the document later, or writes it, does so level by level of our own stack."""
    level = [found] if type(found) in _NESTED else []
    for _ in range(DEEPEST):
        if not level:
            return
        level = [
            value
            for outer in level
            for value in (outer.values() if type(outer) is dict else outer)
            if type(value) in _NESTED
        ]
    if level:
        raise _BeyondError(f"it is nested more than {DEEPEST} deep")


def _check_strings(found: Any) -> None:
    """Half a character cannot be written down, and a NUL no file name and no database takes."""
    stack = [found]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            if "\0" in value or not _is_utf8(value):
                raise _BeyondError(f"the text {_shown(value)} holds a NUL or half a character")
        elif isinstance(value, dict):
            stack.extend(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
