"""Schemas of Avro files that others wrote: read within bounds, and refused where a few bytes could claim endless values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lakewarden.foreign.json_text import read_json

# A table of ten thousand columns has a schema of about a megabyte in its delete files.
MOST_BYTES, MOST_VALUES = 4 << 20, 400_000


@lru_cache(maxsize=1024)
def read_schema(schema: bytes) -> Any:
    """The schema; whoever gets it must not change it. Raises UnreadableMetadataError, or ValueError and its like.

    A value that takes no bytes (a null, an empty record) may not be a member of an array: a count of five bytes would then
    stand for a million million of them, and a decoder would make them all.
    """
    found = read_json(schema, "an Avro schema", most_bytes=MOST_BYTES, most_values=MOST_VALUES)
    _least(found, {})
    return found


def _least(schema: Any, known: dict[str, int]) -> int:
    """How many bytes a value takes at least. Raises ValueError for an array of values that take none."""
    if isinstance(schema, str):
        return known.get(schema, 0 if schema == "null" else 1)
    if isinstance(schema, list):
        # A union's value begins with the number of its branch.
        return 1 + min((_least(branch, known) for branch in schema), default=0)
    if not isinstance(schema, Mapping):
        raise TypeError(f"a schema that is {type(schema).__name__}")
    kind = schema["type"]
    if kind in ("record", "error"):
        return _named(schema, known, lambda: sum(_least(field["type"], known) for field in schema["fields"]))
    if kind == "array":
        if not _least(schema["items"], known):
            raise ValueError("an array of values that take no bytes")
        return 1
    if kind == "map":
        _least(schema["values"], known)
        return 1
    if kind == "fixed":
        return _named(schema, known, lambda: int(schema["size"]))
    if kind == "enum":
        return _named(schema, known, lambda: 1)
    return _least(kind, known)


def _named(schema: Mapping[str, Any], known: dict[str, int], least: Any) -> int:
    """A type that others refer to by its name. Within itself it counts as one byte: it can only be there optionally."""
    name, space = str(schema["name"]), schema.get("namespace")
    names = (name, f"{space}.{name}", name.rpartition(".")[2])
    known.update(dict.fromkeys(names, 1))
    found: int = least()
    known.update(dict.fromkeys(names, found))
    return found
