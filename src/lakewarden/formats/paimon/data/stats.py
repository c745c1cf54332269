"""Counts of nulls, least and greatest values of a file's columns, taken from the rows themselves.

Readers skip files by these, so a bound that is too narrow loses rows. Where a bound would be doubtful, there is none: a
reader then opens the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.formats.paimon.data.binary_row import binary_row
from lakewarden.formats.paimon.data.types import Column
from lakewarden.formats.paimon.metadata.options import bad_option, whole

MODE, FIRST_COLUMNS = "metadata.stats-mode", "metadata.stats-keep-first-n-columns"
_TRUNCATE = re.compile(r"truncate\(([0-9]{1,9})\)")


@dataclass(frozen=True, slots=True)
class Mode:
    """How much is noted of a column: nothing, nulls, or nulls and bounds of at most so many characters or bytes."""

    counts: bool
    bounds: bool
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """What a manifest says of a file: the columns that it says something of, and of each the bounds and nulls."""

    columns: tuple[str, ...]
    least: bytes
    greatest: bytes
    nulls: tuple[int, ...]


def modes_of(options: Mapping[str, str], columns: Sequence[Column]) -> tuple[Mode, ...]:
    """What the table's options want of each column. Raises ConfigError for what nobody knows."""
    default = options.get(MODE, "truncate(16)")
    first = whole(options, FIRST_COLUMNS, -1)
    assert first is not None
    found = []
    for place, column in enumerate(columns):
        key = f"fields.{column.name}.stats-mode"
        kept = first < 0 or place < first
        found.append(_mode(key, options[key]) if key in options else _mode(MODE, default if kept else "none"))
    return tuple(found)


def _mode(key: str, text: str) -> Mode:
    words = text.strip().lower()
    if words in ("none", "counts", "full"):
        return Mode(words != "none", words == "full")
    if (found := _TRUNCATE.fullmatch(words)) and int(found[1]) > 0:
        return Mode(True, True, int(found[1]))
    raise bad_option(key, text, "is none of none, counts, truncate(16) and full")


@dataclass(slots=True)
class _Leaf:
    nulls: int = 0
    least: Any = None
    greatest: Any = None
    doubt: bool = False


class Collector:
    """The statistics of a file in the making. Of rows, lists and maps only the nulls are counted."""

    def __init__(self, columns: Sequence[Column], modes: Sequence[Mode]) -> None:
        self._columns = columns
        self._modes = modes
        self._leaves = [_Leaf() for _ in columns]

    def add(self, batch: pa.RecordBatch) -> None:
        for array, leaf, mode in zip(batch.columns, self._leaves, self._modes, strict=False):
            leaf.nulls += array.null_count
            if mode.bounds and not pa.types.is_nested(array.type) and array.null_count < len(array):
                _take(array, leaf)

    def found(self) -> Stats:
        noted = [n for n, mode in enumerate(self._modes) if mode.counts]
        bounds = [_bounds(self._leaves[n], self._modes[n].width) for n in noted]
        types = [self._columns[n].type for n in noted]
        return Stats(
            columns=tuple(self._columns[n].name for n in noted),
            least=binary_row([pair[0] for pair in bounds], types),
            greatest=binary_row([pair[1] for pair in bounds], types),
            nulls=tuple(self._leaves[n].nulls for n in noted),
        )


def _take(array: pa.Array, leaf: _Leaf) -> None:
    if pa.types.is_floating(array.type) and pc.any(pc.is_nan(array)).as_py():
        # Engines do not agree on where such a number sorts.
        leaf.doubt = True
        return
    ends = pc.min_max(_as_stored(array))
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    leaf.least = least if leaf.least is None else min(leaf.least, least)
    leaf.greatest = greatest if leaf.greatest is None else max(leaf.greatest, greatest)


def _as_stored(array: pa.Array) -> pa.Array:
    """Dates and times as the numbers they are stored as: Python's own end with the year 9999."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        return array.cast(pa.int32())
    return array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array


def _bounds(leaf: _Leaf, width: int | None) -> tuple[Any, Any]:
    """Both bounds or none: readers look at the two together."""
    if leaf.doubt or leaf.least is None:
        return None, None
    if isinstance(leaf.least, float):
        # Zero has two signs, and the negative one sorts first.
        return (-0.0 if leaf.least == 0 else leaf.least), (0.0 if leaf.greatest == 0 else leaf.greatest)
    if width is None or not isinstance(leaf.least, str | bytes):
        return leaf.least, leaf.greatest
    greatest = _not_below(leaf.greatest, width)
    return (None, None) if greatest is None else (leaf.least[:width], greatest)


def _not_below(value: Any, width: int) -> Any:
    """A value that is not below this one, and as short as was asked for; None if there is none."""
    if len(value) <= width:
        return value
    short = value[:width]
    for place in range(len(short) - 1, -1, -1):
        if isinstance(short, bytes):
            if short[place] < 0xFF:
                return short[:place] + bytes([short[place] + 1])
        elif (code := ord(short[place]) + 1) <= 0x10FFFF:
            # Surrogates are no characters, and UTF-8 has no bytes for them.
            return short[:place] + chr(0xE000 if 0xD800 <= code < 0xE000 else code)
    return None
