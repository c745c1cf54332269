"""Thrift's compact protocol, as far as Parquet's footers, page headers and page indexes use it.

What is read is written back byte for byte, whatever a struct means: fields keep their number, kind and order. The bytes are
foreign, so every step takes at least one of them, no length is believed beyond their end, and depth is bounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# A field that is true and one that is false are of two kinds.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_BOOLEAN = frozenset({TRUE, FALSE})
_INTEGERS = frozenset({I16, I32, I64})
# Parquet's deepest struct, a column index within a footer, is less than half as deep.
_DEEPEST = 24
_LONGEST_NUMBER = 10


class Field(NamedTuple):
    """One field of a struct: its kind, and an int, bool, bytes, Items or Struct."""

    kind: int
    value: Any


class Items(NamedTuple):
    """A list: the kind of its items, and they."""

    kind: int
    values: list[Any]


Struct = dict[int, Field]


class GarbledError(ValueError):
    """Bytes that are no such struct."""


class ShortError(GarbledError):
    """Bytes that end before their struct does."""


def loads(data: bytes | memoryview, at: int = 0) -> tuple[Struct, int]:
    """The struct that begins at a place, and where it ends. Raises GarbledError."""
    reader = _Reader(data, at)
    return reader.struct(0), reader.at


def end_of(data: bytes | memoryview, at: int, kind: int) -> int:
    """Where the value of a field ends that begins at a place. Raises GarbledError."""
    reader = _Reader(data, at)
    reader.value(kind, 0)
    return reader.at


def dumps(struct: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes | memoryview, at: int) -> None:
        self._data, self.at, self._end = data, at, len(data)

    def struct(self, depth: int) -> Struct:
        if depth > _DEEPEST:
            raise GarbledError("structs lie too deep within each other")
        found: Struct = {}
        number = 0
        while (head := self._byte()) != 0:
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            if number in found or not 0 < number < 1 << 15:
                raise GarbledError(f"a struct has the field {number} twice, or has no such field")
            found[number] = Field(kind, kind == TRUE if kind in _BOOLEAN else self.value(kind, depth))
        return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._signed()
        if kind == BINARY:
            return self._bytes(self._unsigned())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._items(depth + 1)
        if kind == DOUBLE:
            return self._bytes(8)
        if kind == BYTE:
            return self._byte()
        raise GarbledError(f"a field is of the kind {kind}, which Parquet does not use")

    def _items(self, depth: int) -> Items:
        if depth > _DEEPEST:
            raise GarbledError("lists lie too deep within each other")
        head = self._byte()
        kind, count = head & 15, head >> 4
        count = self._unsigned() if count == 15 else count
        # The smallest item, an empty struct, takes a byte: more items than bytes are left cannot be.
        if count > self._end - self.at:
            raise ShortError("a list has more members than bytes")
        if kind in _BOOLEAN:
            return Items(kind, [self._byte() == TRUE for _ in range(count)])
        return Items(kind, [self.value(kind, depth) for _ in range(count)])

    def _byte(self) -> int:
        if self.at >= self._end:
            raise ShortError("it is cut")
        found = self._data[self.at]
        self.at += 1
        return found

    def _bytes(self, length: int) -> bytes:
        if length > self._end - self.at:
            raise ShortError("it is cut")
        found = bytes(self._data[self.at : self.at + length])
        self.at += length
        return found

    def _unsigned(self) -> int:
        found = 0
        for place in range(_LONGEST_NUMBER):
            byte = self._byte()
            found |= (byte & 127) << (7 * place)
            if byte < 128 and found < 1 << 64:
                return found
        raise GarbledError("a number is too long")

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)


def _put_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(struct.items()):
        noted = kind if kind not in _BOOLEAN else TRUE if value else FALSE
        step = number - before
        if step <= 15:
            out.append(step << 4 | noted)
        else:
            out.append(noted)
            _put_signed(out, number)
        before = number
        if kind not in _BOOLEAN:
            _put(out, kind, value)
    out.append(0)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _put_signed(out, value)
    elif kind == BINARY:
        _put_unsigned(out, len(value))
        out += value
    elif kind == STRUCT and isinstance(value, bytes):
        out += value  # put together elsewhere
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind in (LIST, SET):
        _put_items(out, value)
    elif kind == DOUBLE:
        out += value
    else:
        out.append(value)


def _put_items(out: bytearray, items: Items) -> None:
    kind, values = items
    if len(values) < 15:
        out.append(len(values) << 4 | kind)
    else:
        out.append(15 << 4 | kind)
        _put_unsigned(out, len(values))
    for value in values:
        if kind in _BOOLEAN:
            out.append(TRUE if value else FALSE)
        else:
            _put(out, kind, value)


def _put_unsigned(out: bytearray, number: int) -> None:
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _put_signed(out: bytearray, number: int) -> None:
    _put_unsigned(out, number << 1 if number >= 0 else (-number << 1) - 1)
