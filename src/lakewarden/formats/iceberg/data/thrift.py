"""Thrift's compact protocol, in which Parquet files describe themselves: read and written without knowing what is described.

A struct is its fields by number, each with its type: nothing that a later writer added is lost when it is written again.
"""

from __future__ import annotations

import struct
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_INTEGERS = (I16, I32, I64)
_DEEPEST = 64  # a damaged file must not be read for ever

# A field is its type and value, a list the type of its members and these.
Struct = dict[int, tuple[int, Any]]
List = tuple[int, list[Any]]


def loads(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct that begins here, and where it ends. Raises ValueError for what is none."""
    reader = _Reader(data, at)
    try:
        return reader.struct(0), reader.at
    except (IndexError, struct.error) as error:
        raise ValueError(f"is cut ({error})") from error


def dumps(fields: Struct) -> bytes:
    """The struct in bytes."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def struct(self, depth: int) -> Struct:
        if depth > _DEEPEST:
            raise ValueError("is nested too deeply")
        found: Struct = {}
        number = 0
        while (head := self._byte()) != 0:
            kind, delta = head & 0x0F, head >> 4
            number = number + delta if delta else self._integer()
            found[number] = kind, self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in _INTEGERS:
            return self._integer()
        if kind == BYTE:
            return self._byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == BINARY:
            return self._bytes(self._number())
        if kind in (LIST, SET):
            return self._list(depth)
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"has a field of the unknown type {kind}")

    def _list(self, depth: int) -> List:
        head = self._byte()
        kind, count = head & 0x0F, head >> 4
        count = self._number() if count == 15 else count
        if count > len(self._data):
            raise ValueError("has more members than bytes")
        if kind in (TRUE, FALSE):
            return kind, [self._byte() == TRUE for _ in range(count)]
        return kind, [self._value(kind, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, length: int) -> bytes:
        found = self._data[self.at : self.at + length]
        if len(found) < length:
            raise IndexError("bytes are missing")
        self.at += length
        return bytes(found)

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("has a number that is too long")

    def _integer(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < number - last <= 15:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, number)
        last = number
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_integer(out, value)
    elif kind == BYTE:
        out.append(value)
    elif kind == DOUBLE:
        out += struct.pack("<d", value)
    elif kind == BINARY:
        _write_number(out, len(value))
        out += value
    elif kind in (LIST, SET):
        _write_list(out, *value)
    else:
        _write_struct(out, value)


def _write_list(out: bytearray, kind: int, values: list[Any]) -> None:
    out.append(min(len(values), 15) << 4 | kind)
    if len(values) >= 15:
        _write_number(out, len(values))
    for value in values:
        if kind in (TRUE, FALSE):
            out.append(TRUE if value else FALSE)
        else:
            _write_value(out, kind, value)


def _write_number(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_integer(out: bytearray, number: int) -> None:
    _write_number(out, (number << 1) ^ (number >> 63))
