"""Counts and bounds of the rows of a file, taken from the rows themselves.

Readers skip files by these, and equality deletes with them, so a bound that is too narrow loses rows. Footers cannot be
trusted for it: a row group whose values are too long to be noted says nothing, and a bound over the others is wrong. (Of
texts that are short enough, the encoder that writes them finds the ends.)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.formats.iceberg.data.columns import LAST_UPDATED, ROW_ID, id_of
from lakewarden.formats.iceberg.data.form import leaves

MODE = "write.metadata.metrics.default"
MODE_OF_COLUMN = "write.metadata.metrics.column."
MOST_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_EXACT = Context(prec=80)
_SIGNS = np.array([0x80, *[0] * 7] * 2, np.uint8)


@dataclass(frozen=True, slots=True)
class Mode:
    """How much is noted of a column: nothing, counts, or counts and bounds of at most so many characters or bytes."""

    counts: bool
    bounds: bool
    width: int | None = None

    @staticmethod
    def of(text: str, fallback: Mode) -> Mode:
        """What a table's property says; what nobody knows is not heard, as in Java."""
        words = text.strip().lower()
        if words == "none":
            return NOTHING
        if words == "counts":
            return COUNTS
        if words == "full":
            return Mode(True, True)
        found = _TRUNCATE.fullmatch(words)
        return Mode(True, True, int(found[1])) if found and int(found[1]) > 0 else fallback


NOTHING, COUNTS, USUAL = Mode(False, False), Mode(True, False), Mode(True, True, 16)


class Modes:
    """The mode of each column, by its name with dots. `sorted_by` are columns that the table is sorted by."""

    def __init__(self, properties: Mapping[str, str], fields: Any, sorted_by: Collection[str] = ()) -> None:
        fields = [found for found in fields if id_of(found) not in (ROW_ID, LAST_UPDATED)]
        if MODE in properties:
            self._default = Mode.of(properties[MODE], USUAL)
            self._modes = {}
        else:
            # Of a wide table only the first columns are noted, unless the owner said what is to be done with all of them.
            most = _most_columns(properties)
            every = [name for name, *_ in leaves(fields)]
            self._default = USUAL if len(every) <= most else NOTHING
            self._modes = {} if len(every) <= most else dict.fromkeys(_first(fields, most), USUAL)
        bounded = USUAL if self._default in (NOTHING, COUNTS) else self._default
        self._modes |= dict.fromkeys(sorted_by, bounded)
        for key, text in properties.items():
            if key.startswith(MODE_OF_COLUMN):
                self._modes[key.removeprefix(MODE_OF_COLUMN)] = Mode.of(text, self._default)

    def of(self, name: str) -> Mode:
        return self._modes.get(name, self._default)


def _most_columns(properties: Mapping[str, str]) -> int:
    text = properties.get(MOST_COLUMNS, "").strip()
    return int(text) if text.isdecimal() else 100


def _first(fields: Any, most: int) -> list[str]:
    """The first columns as Java counts them: those of a struct before those within its members."""
    found: list[str] = []

    def visit(name: str, kind: Any) -> None:
        if pa.types.is_struct(kind):
            members = [(f"{name}.{member.name}" if name else member.name, member.type) for member in kind]
        elif pa.types.is_map(kind):
            members = [(f"{name}.key", kind.key_type), (f"{name}.value", kind.item_type)]
        elif pa.types.is_list(kind):
            members = [(f"{name}.element", kind.value_type)]
        else:
            return
        found.extend(name for name, inner in members if not pa.types.is_nested(inner))
        for name, inner in members:
            visit(name, inner)

    visit("", pa.struct(fields))
    return found[:most]


@dataclass(slots=True)
class _Leaf:
    values: int = 0
    nulls: int = 0
    nans: int = 0
    least: Any = None
    most: Any = None

    def widen(self, array: pa.Array) -> None:
        """Take in values, at least one of which is none of null and NaN."""
        least, most = _ends(array)
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)


@dataclass
class Metrics:
    """The counts and bounds of a file in the making. Lists and maps have counts of their own column and nothing within."""

    schema: pa.Schema
    properties: Mapping[str, str]
    sorted_by: Collection[str] = ()
    uuids: Collection[int] = ()
    _leaves: dict[int, _Leaf] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fields = dict(_leaves(self.schema))
        self._modes = Modes(self.properties, self.schema, self.sorted_by)
        self._leaves = {number: _Leaf() for number in self._fields}
        self._signed: dict[int, _Leaf] = {}

    def add(self, batch: pa.RecordBatch, only: Collection[int] | None = None, counted: Collection[int] = ()) -> None:
        """Take these rows in; of these columns alone, if any are named. Values of `counted` columns are counted, and somebody
        else says between which ends they are."""
        for column, found in zip(batch.columns, batch.schema, strict=True):
            self._take(column, found, only, counted)

    def _take(self, array: pa.Array, found: pa.Field, only: Collection[int] | None, counted: Collection[int]) -> None:
        if pa.types.is_struct(found.type):
            # Flattened, so that a member of a missing struct is missing too.
            for child, member in zip(array.flatten(), found.type, strict=True):
                self._take(child, member, only, counted)
            return
        if pa.types.is_nested(found.type) or (only is not None and _id(found) not in only):
            return
        self.count(_id(found), len(array), array.null_count)
        if _id(found) in counted:
            return
        leaf = self._leaves[_id(found)]
        if pa.types.is_floating(found.type):
            nan = pc.is_nan(array)
            if nans := pc.sum(nan).as_py():
                leaf.nans += nans
                array = array.filter(pc.invert(nan))
        self.widen(_id(found), array)

    def count(self, number: int, values: int, nulls: int) -> None:
        """So many more values of a column, of which so many are null."""
        leaf = self._leaves[number]
        leaf.values += values
        leaf.nulls += nulls

    def widen(self, number: int, array: pa.Array) -> None:
        """Take these values into the bounds of a column."""
        leaf = self._leaves[number]
        if not self.bounded(number) or array.null_count == len(array):
            return
        leaf.widen(_as_stored(array))
        if number in self.uuids:
            self._signed.setdefault(number, _Leaf()).widen(_by_sign(array))

    def bounded(self, number: int) -> bool:
        """Whether bounds are noted of a column."""
        return self._mode(number).bounds

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
            kind = self._fields[number][1].type
            # Only texts and bytes of any length are cut.
            cut = pa.types.is_string(kind) or pa.types.is_binary(kind)
            width = self._mode(number).width if cut else None
            if (signed := self._signed.get(number)) is not None and not _same_ends(leaf, signed):
                continue
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


def _ends(array: pa.Array) -> tuple[Any, Any]:
    """The least and the greatest of these values. Of floating-point numbers numpy finds them in a tenth of the time."""
    if pa.types.is_floating(array.type):
        values = array.drop_null().to_numpy()
        return values.min().item(), values.max().item()
    ends = pc.min_max(array)
    return ends["min"].as_py(), ends["max"].as_py()


def _as_stored(array: pa.Array) -> pa.Array:
    """Dates and times as the numbers they are stored as: Python's own end with the year 9999."""
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32())
    timed = pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type)
    return array.cast(pa.int64()) if timed else array


def _by_sign(uuids: pa.Array) -> pa.Array:
    """The same uuids, with the first bit of each half turned: then their bytes sort as Java sorts them."""
    values = uuids.drop_null()
    raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 :][: len(values) * 16]
    turned = raw.reshape(len(values), 16) ^ _SIGNS
    return pa.FixedSizeBinaryArray.from_buffers(values.type, len(values), [None, pa.py_buffer(turned.tobytes())])


def _same_ends(leaf: _Leaf, signed: _Leaf) -> bool:
    """Whether uuids have the same bounds by their bytes, as the specification has them, and as Java's readers compare them.

    Without, there is no bound that every reader takes right, and there must be none.
    """
    turned = [(np.frombuffer(end, np.uint8) ^ _SIGNS).tobytes() for end in (signed.least, signed.most)]
    return [leaf.least, leaf.most] == turned


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
