"""What a Parquet file's schema means, whoever wrote it, and what it must mean for a table's columns.

Libraries spell the same column differently (an annotation in the old or the new form, a signed integer with or without
one); two schemas of one meaning can stand for each other's row groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakewarden.formats.iceberg.data.foreign_footer import NotCopiedError
from lakewarden.formats.iceberg.data.thrift import Struct

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
REQUIRED, OPTIONAL, REPEATED = range(3)
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _ID, _LOGICAL = range(1, 11)

_UNITS = {1: "ms", 2: "us", 3: "ns"}
# Annotations in the old form, of which the new one is missing. Times were always ones of UTC then.
_OLD: dict[int, tuple[Any, ...]] = {
    0: ("string",), 1: ("map",), 3: ("list",), 6: ("date",), 8: ("time", "us", True), 10: ("timestamp", "us", True),
}  # fmt: skip
_PLAIN: dict[str, tuple[int, int, tuple[Any, ...]]] = {
    "boolean": (BOOLEAN, 0, ()),
    "int": (INT32, 0, ()),
    "long": (INT64, 0, ()),
    "float": (FLOAT, 0, ()),
    "double": (DOUBLE, 0, ()),
    "date": (INT32, 0, ("date",)),
    "time": (INT64, 0, ("time", "us", False)),
    "timestamp": (INT64, 0, ("timestamp", "us", False)),
    "timestamptz": (INT64, 0, ("timestamp", "us", True)),
    "timestamp_ns": (INT64, 0, ("timestamp", "ns", False)),
    "timestamptz_ns": (INT64, 0, ("timestamp", "ns", True)),
    "string": (BYTE_ARRAY, 0, ("string",)),
    "binary": (BYTE_ARRAY, 0, ()),
    "uuid": (FIXED, 16, ("uuid",)),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_GROUP = -1


class Element(NamedTuple):
    """One column, or a group of them, and what it means. `physical` of a group is -1."""

    name: str
    number: int | None
    repetition: int
    physical: int
    length: int
    meaning: tuple[Any, ...]
    children: int = 0


def elements_of(schema: Sequence[Struct]) -> list[Element]:
    """The columns of a footer in their order, without the root. Raises NotCopiedError."""
    try:
        found = [_element(one) for one in schema]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise NotCopiedError(f"a schema cannot be read ({type(error).__name__}: {error})") from error
    open_ones = 1
    for one in found:
        open_ones += one.children - 1
        if one.children < 0 or open_ones < 0:
            raise NotCopiedError("a schema is no tree")
    if open_ones or not found:
        raise NotCopiedError("a schema is no tree")
    return found[1:]


def _element(one: Struct) -> Element:
    def number(field: int, otherwise: int = 0) -> int:
        value = one[field].value if field in one else otherwise
        if not isinstance(value, int):
            raise TypeError(f"the field {field} is no number")
        return value

    physical = number(_TYPE, _GROUP)
    return Element(
        one[_NAME].value.decode(),
        number(_ID) if _ID in one else None,
        number(_REPETITION),
        physical,
        number(_LENGTH) if physical == FIXED else 0,
        _meaning(one, number),
        number(_CHILDREN) if physical == _GROUP else 0,
    )


def _meaning(one: Struct, number: Any) -> tuple[Any, ...]:
    if _LOGICAL in one:
        ((kind, said),) = one[_LOGICAL].value.items()
        return _logical(kind, said.value)
    if _CONVERTED not in one:
        return ()
    old = number(_CONVERTED)
    if old == 5:
        return ("decimal", number(_PRECISION), number(_SCALE))
    if old == 2 or (old, number(_TYPE, _GROUP)) in ((17, INT32), (18, INT64)):
        # The entries of a map, and signed integers of their own width, mean nothing more than they are.
        return ()
    return _OLD.get(old, ("unknown", old))


def _logical(kind: int, said: Struct) -> tuple[Any, ...]:
    if kind == 5:
        return ("decimal", said[2].value, said[1].value)
    if kind in (7, 8):
        (unit,) = said[2].value
        return ("time" if kind == 7 else "timestamp", _UNITS[unit], bool(said[1].value))
    if kind == 10:
        width, signed = said[1].value, said[2].value
        return () if signed and width in (32, 64) else ("integer", width, signed)
    return {1: ("string",), 2: ("map",), 3: ("list",), 6: ("date",), 14: ("uuid",)}.get(kind, ("unknown", kind))


def expected_elements(columns: Mapping[str, Any], lineage: Mapping[str, int]) -> list[Element]:
    """What the files of a table with these columns have, those of row lineage (name to id) last. Raises NotCopiedError."""
    found = [one for field in columns["fields"] for one in _field(field)]
    return found + [Element(name, number, OPTIONAL, INT64, 0, ()) for name, number in lineage.items()]


def _field(field: Mapping[str, Any]) -> Iterator[Element]:
    yield from _typed(str(field["name"]), int(field["id"]), bool(field.get("required")), field["type"])


def _typed(name: str, number: int, required: bool, kind: Any) -> Iterator[Element]:
    repetition = REQUIRED if required else OPTIONAL
    if isinstance(kind, str):
        physical, length, meaning = _primitive(kind)
        yield Element(name, number, repetition, physical, length, meaning)
    elif kind["type"] == "struct":
        yield Element(name, number, repetition, _GROUP, 0, (), len(kind["fields"]))
        for field in kind["fields"]:
            yield from _field(field)
    elif kind["type"] == "list":
        yield Element(name, number, repetition, _GROUP, 0, ("list",), 1)
        yield Element("list", None, REPEATED, _GROUP, 0, (), 1)
        yield from _typed("element", int(kind["element-id"]), bool(kind.get("element-required")), kind["element"])
    elif kind["type"] == "map":
        yield Element(name, number, repetition, _GROUP, 0, ("map",), 1)
        yield Element("key_value", None, REPEATED, _GROUP, 0, (), 2)
        yield from _typed("key", int(kind["key-id"]), True, kind["key"])
        yield from _typed("value", int(kind["value-id"]), bool(kind.get("value-required")), kind["value"])
    else:
        raise NotCopiedError(f"the table has a column of type {kind['type']}")


def _primitive(kind: str) -> tuple[int, int, tuple[Any, ...]]:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if found := _DECIMAL.fullmatch(kind):
        precision, scale = int(found[1]), int(found[2])
        meaning = ("decimal", precision, scale)
        if precision <= 18:
            return (INT32 if precision <= 9 else INT64), 0, meaning
        # The fewest bytes that hold a number of so many digits and its sign.
        return FIXED, (int("9" * precision).bit_length() + 8) // 8, meaning
    if found := _FIXED.fullmatch(kind):
        return FIXED, int(found[1]), ()
    raise NotCopiedError(f"the table has a column of type {kind}")


def leaves_of(elements: Sequence[Element]) -> list[tuple[tuple[str, ...], Element, bool]]:
    """The columns that have values: each with its path, and whether it lies within a list or map."""
    found: list[tuple[tuple[str, ...], Element, bool]] = []
    above: list[tuple[str, int, bool]] = []
    for one in elements:
        path = (*(name for name, _, _ in above), one.name)
        repeated = one.repetition == REPEATED or any(inside for _, _, inside in above)
        if above:
            above[-1] = (above[-1][0], above[-1][1] - 1, above[-1][2])
        if one.children:
            above.append((one.name, one.children, repeated))
        elif one.physical != _GROUP:
            found.append((path, one, repeated))
        while above and above[-1][1] == 0:
            above.pop()
    return found
