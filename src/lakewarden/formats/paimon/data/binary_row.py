"""Values as Paimon's binary row, the form of a manifest's bounds: the way back of `partitions.values.decode`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

from lakewarden.formats.paimon.data.types import DECIMAL, TIMESTAMP, ZONED, Type

_FIXED = {
    "BOOLEAN": "<?",
    "TINYINT": "<b",
    "SMALLINT": "<h",
    "INT": "<i",
    "DATE": "<i",
    "TIME": "<i",
    "BIGINT": "<q",
    "FLOAT": "<f",
    "DOUBLE": "<d",
}
_IN_SLOT = 7  # bytes of a text that fit into its slot
_COMPACT_DECIMAL, _COMPACT_TIMESTAMP = 18, 3
_EXACT = Context(prec=80)


def binary_row(values: Sequence[Any], types: Sequence[Type]) -> bytes:
    """The row with its number of columns before it. Dates and times are the numbers they are stored as."""
    start = (len(values) + 63 + 8) // 64 * 8
    header = bytearray(start)
    slots, behind = bytearray(8 * len(values)), bytearray()
    for place, (value, kind) in enumerate(zip(values, types, strict=True)):
        if value is None:
            header[(place + 8) // 8] |= 1 << (place + 8) % 8
            continue
        slot, more = _slot(value, kind, start + len(slots) + len(behind))
        slots[8 * place : 8 * place + len(slot)] = slot
        # Everything behind the slots begins at a whole word.
        behind += more + bytes(-len(more) % 8)
    return len(values).to_bytes(4, "big") + bytes(header + slots + behind)


def _slot(value: Any, kind: Type, at: int) -> tuple[bytes, bytes]:
    """What is in a value's slot, and what lies behind the slots, from `at` on."""
    if kind.kind in _FIXED:
        return struct.pack(_FIXED[kind.kind], value), b""
    if kind.kind in (TIMESTAMP, ZONED):
        if kind.precision <= _COMPACT_TIMESTAMP:
            return struct.pack("<q", value), b""
        millis, micros = divmod(value, 1000)
        return struct.pack("<II", micros * 1000, at), struct.pack("<q", millis)
    if kind.kind == DECIMAL:
        unscaled = _unscaled(value, kind.scale)
        if kind.precision <= _COMPACT_DECIMAL:
            return struct.pack("<q", unscaled), b""
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        data = unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
        # Always sixteen bytes, so that a value can be replaced in place.
        return struct.pack("<II", len(data), at), data.ljust(16, b"\0")
    data = value.encode() if isinstance(value, str) else bytes(value)
    if len(data) <= _IN_SLOT:
        return data.ljust(_IN_SLOT, b"\0") + bytes([0x80 | len(data)]), b""
    return struct.pack("<II", len(data), at), data


def _unscaled(value: Decimal, scale: int) -> int:
    # Python rounds to 28 digits unless it is told otherwise, and a decimal has up to 38.
    return int(value.scaleb(scale, _EXACT))
