"""Counts and bounds of the rows of a file, taken from the rows themselves.

Readers skip files by these, and equality deletes with them, so a bound that is too narrow loses rows. Footers cannot be
trusted for it: a row group whose values are too long to be noted says nothing, and a bound over the others is wrong.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.formats.iceberg.data.columns import LAST_UPDATED, ROW_ID, id_of

MODE = "write.metadata.metrics.default"
MODE_OF_COLUMN = "write.metadata.metrics.column."
MOST_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_EXACT = Context(prec=80)


@dataclass(frozen=True, slots=True)
class Mode:
    """How much is noted of a column: nothing, counts, or counts and bounds of at most so many characters or bytes."""

    counts: bool
    bounds: bool
    width: int | None = None

    @staticmethod
    def of(text: str) -> Mode:
        """What a table's property says; what nobody knows is read as the default."""
        words = text.strip().lower()
        if words == "none":
            return Mode(False, False)
        if words == "counts":
            return Mode(True, False)
        if words == "full":
            return Mode(True, True)
        found = _TRUNCATE.fullmatch(words)
        return Mode(True, True, int(found[1]) if found else 16)


class Modes:
    """The mode of each column, by its name with dots."""

    def __init__(self, properties: Mapping[str, str], names: list[str]) -> None:
        most = int(properties.get(MOST_COLUMNS, "100"))
        default = properties.get(MODE)
        # Of a wide table only the first columns are noted, unless the owner said what is to be done with all of them.
        fallback = {
            name: Mode.of(default or ("truncate(16)" if place < most else "none")) for place, name in enumerate(names)
        }
        said = {key.removeprefix(MODE_OF_COLUMN): Mode.of(v) for key, v in properties.items() if key.startswith(MODE_OF_COLUMN)}  # fmt: skip
        self._modes = {name: said.get(name, fallback[name]) for name in names}

    def of(self, name: str) -> Mode:
        return self._modes[name]


@dataclass(slots=True)
class _Leaf:
    values: int = 0
    nulls: int = 0
    nans: int = 0
    least: Any = None
    most: Any = None


@dataclass
class Metrics:
    """The counts and bounds of a file in the making. Lists and maps have counts of their own column and nothing within."""

    schema: pa.Schema
    properties: Mapping[str, str]
    _leaves: dict[int, _Leaf] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fields = dict(_leaves(self.schema))
        self._modes = Modes(self.properties, [name for name, _ in self._fields.values()])
        self._leaves = {number: _Leaf() for number in self._fields}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take these rows in."""
        for column, found in zip(batch.columns, batch.schema, strict=True):
            self._take(column, found)

    def _take(self, array: pa.Array, found: pa.Field) -> None:
        if pa.types.is_struct(found.type):
            # Flattened, so that a member of a missing struct is missing too.
            for child, member in zip(array.flatten(), found.type, strict=True):
                self._take(child, member)
            return
        if pa.types.is_nested(found.type):
            return
        leaf = self._leaves[_id(found)]
        leaf.values += len(array)
        leaf.nulls += array.null_count
        if pa.types.is_floating(found.type):
            nan = pc.is_nan(array)
            leaf.nans += pc.sum(nan).as_py() or 0
            array = array.filter(pc.invert(nan))
        if not self._mode(_id(found)).bounds or array.null_count == len(array):
            return
        ends = pc.min_max(_as_stored(array))
        least, most = ends["min"].as_py(), ends["max"].as_py()
        leaf.least = least if leaf.least is None else min(leaf.least, least)
        leaf.most = most if leaf.most is None else max(leaf.most, most)

    def _mode(self, number: int) -> Mode:
        return Mode(True, True) if number in (ROW_ID, LAST_UPDATED) else self._modes.of(self._fields[number][0])

    def counts(self) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """Values, nulls and numbers that are none, by column."""
        noted = {n: leaf for n, leaf in self._leaves.items() if self._mode(n).counts}
        floating = {n for n, (_, found) in self._fields.items() if pa.types.is_floating(found.type)}
        return (
            {n: leaf.values for n, leaf in noted.items()},
            {n: leaf.nulls for n, leaf in noted.items()},
            {n: leaf.nans for n, leaf in noted.items() if n in floating},
        )

    def bounds(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """The least and the greatest value by column, in the specification's bytes."""
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        for number, leaf in self._leaves.items():
            if leaf.least is None:
                continue
            kind, width = self._fields[number][1].type, self._mode(number).width
            lower[number] = _bytes(_not_above(leaf.least, width), kind, below=True)
            if (most := _not_below(leaf.most, width)) is not None:
                upper[number] = _bytes(most, kind, below=False)
        return lower, upper

    def wanted(self, number: int) -> bool:
        """Whether anything is noted of a column."""
        return number in self._fields and self._mode(number).counts


def _leaves(fields: Any, above: str = "") -> Iterator[tuple[int, tuple[str, pa.Field]]]:
    """The columns that have values of their own, by id, with their names; those in lists and maps are not looked at."""
    for found in fields:
        name = f"{above}{found.name}"
        if pa.types.is_struct(found.type):
            yield from _leaves(found.type, f"{name}.")
        elif not pa.types.is_nested(found.type):
            yield _id(found), (name, found)


def _id(found: pa.Field) -> int:
    number = id_of(found)
    assert number is not None
    return number


def _as_stored(array: pa.Array) -> pa.Array:
    """Dates and times as the numbers they are stored as: Python's own end with the year 9999."""
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32())
    return array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array


def _not_above(value: Any, width: int | None) -> Any:
    """A value that is not above this one, and as short as was asked for."""
    return value[:width] if width is not None and isinstance(value, str | bytes) else value


def _not_below(value: Any, width: int | None) -> Any:
    """A value that is not below this one, and as short as was asked for; None if there is none."""
    if width is None or not isinstance(value, str | bytes) or len(value) <= width:
        return value
    short = value[:width]
    for place in range(len(short) - 1, -1, -1):
        if isinstance(short, bytes):
            if short[place] < 0xFF:
                return short[:place] + bytes([short[place] + 1])
        elif (following := _next_character(short[place])) is not None:
            return short[:place] + following
    return None


def _next_character(character: str) -> str | None:
    code = ord(character) + 1
    # Surrogates are no characters, and UTF-8 has no bytes for them.
    code = 0xE000 if 0xD800 <= code < 0xE000 else code
    return chr(code) if code <= 0x10FFFF else None


def _bytes(value: Any, kind: pa.DataType, *, below: bool) -> bytes:
    """One value as the specification writes it ("Binary single-value serialization")."""
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if pa.types.is_floating(kind):
        # Zero has two signs, and the negative one sorts first.
        value = (-0.0 if below else 0.0) if value == 0 else value
        return struct.pack("<f" if pa.types.is_float32(kind) else "<d", value)
    if isinstance(value, Decimal):
        # Python rounds to 28 digits unless it is told otherwise, and a decimal has up to 38.
        unscaled = int(value.scaleb(kind.scale, _EXACT))
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
    if isinstance(value, int):
        return struct.pack("<i" if kind in (pa.int32(), pa.date32()) else "<q", value)
    return value.encode() if isinstance(value, str) else bytes(value)
