"""Counts and bounds of a column chunk by what its footer says, where that is proven to be the rows' own.

A writer that is known says the least and greatest value whole or not at all. Where anything is missing or may have been
cut short, and for numbers that may be NaN, which no footer counts, the column itself is read.
"""

from __future__ import annotations

import re
import struct as packing
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewarden.formats.iceberg.data.foreign_footer import ORDERS, Chunk, Footer
from lakewarden.formats.iceberg.data.parquet_schema import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    Element,
)

NULLS, MOST, LEAST, MOST_IS_WHOLE, LEAST_IS_WHOLE = 3, 5, 6, 7, 8
# From these versions on, no reader has to mend what these libraries write, and they say bounds in the order of the type.
_RECENT = {"parquet-mr": (1, 10), "parquet-cpp-arrow": (10, 0), "parquet-rs": (50, 0)}
_VERSION = re.compile(r"(?P<name>\S+) version (?P<major>\d+)\.(?P<minor>\d+)")
# Iceberg's own writer notes its schema, and cuts no bound of a row group.
_ICEBERG = b"iceberg.schema"
_EXACT = {BOOLEAN: "<?", INT32: "<i", INT64: "<q"}


@dataclass(frozen=True, slots=True)
class Ends:
    """What is known of a chunk's values: how many there are, how many are null, and the least and greatest, if any."""

    values: int
    nulls: int
    ends: tuple[Any, ...]


def recent(created_by: str) -> bool:
    """Whether a file was written by a library that is known, in a version without mistakes that readers must know of."""
    found = _VERSION.match(created_by)
    least = _RECENT.get(found["name"]) if found else None
    return found is not None and least is not None and (int(found["major"]), int(found["minor"])) >= least


def ends_of(footer: Footer, place: int, chunk: Chunk, element: Element) -> Ends | None:
    """The counts and ends of a chunk that is in no list; `place` is its column's. None if only its rows can tell."""
    said = chunk.statistics
    nulls = said[NULLS].value if NULLS in said else None
    if element.physical in (FLOAT, DOUBLE) or not isinstance(nulls, int) or not 0 <= nulls <= chunk.values:
        return None
    if nulls == chunk.values:
        return Ends(chunk.values, nulls, ())
    if element.meaning == ("uuid",):
        # Java sorts uuids in another order than Parquet, and bounds must hold in both.
        return None
    if LEAST not in said or MOST not in said or not _ordered_by_type(footer, place):
        return None
    if element.physical in (BYTE_ARRAY, FIXED) and not _whole(footer, chunk):
        return None
    found = [_value(said[number].value, element) for number in (LEAST, MOST)]
    return None if None in found else Ends(chunk.values, nulls, tuple(found))


def _ordered_by_type(footer: Footer, place: int) -> bool:
    orders = footer.struct[ORDERS].value.values if ORDERS in footer.struct else []
    return place < len(orders) and isinstance(orders[place], dict) and set(orders[place]) == {1}


def _whole(footer: Footer, chunk: Chunk) -> bool:
    """Whether the ends of texts and bytes are values of the column, and not cut."""
    said = chunk.statistics
    if LEAST_IS_WHOLE in said or MOST_IS_WHOLE in said:
        return all(number in said and said[number].value is True for number in (LEAST_IS_WHOLE, MOST_IS_WHOLE))
    name = footer.created_by.partition(" ")[0]
    return name == "parquet-cpp-arrow" or (name == "parquet-mr" and _ICEBERG in footer.pairs)


def _value(said: Any, element: Element) -> Any:
    """A value as Arrow takes it; None if the bytes are none of the column's type."""
    if not isinstance(said, bytes):
        return None
    if element.physical in _EXACT:
        if len(said) != packing.calcsize(_EXACT[element.physical]):
            return None
        found = packing.unpack(_EXACT[element.physical], said)[0]
    elif element.physical == FIXED and len(said) != element.length:
        return None
    else:
        found = said
    if element.meaning[:1] == ("decimal",):
        unscaled = found if isinstance(found, int) else int.from_bytes(found, "big", signed=True)
        return Decimal(
            (0 if unscaled >= 0 else 1, tuple(int(digit) for digit in str(abs(unscaled))), -element.meaning[2])
        )
    return found


def as_column(ends: list[Any], kind: pa.DataType) -> pa.Array:
    """Ends of chunks as values of an Arrow type. Raises ArrowException for what is none."""
    if pa.types.is_string(kind):
        return pa.array(ends, pa.binary()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(ends, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.array(ends, pa.int64()).cast(kind)
    return pa.array(ends, kind)
