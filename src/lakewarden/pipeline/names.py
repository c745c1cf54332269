"""Addresses and file names, a column at a time: one spelling per object, one kind per name."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.uri import SCHEME_CLASSES
from lakewarden.model.verdict import Kind

KINDS = tuple(Kind)
KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}


def _spellings() -> list[tuple[str, str]]:
    aliases: dict[str, list[str]] = defaultdict(list)
    for spelling, canonical in SCHEME_CLASSES.items():
        if spelling != canonical:
            aliases[canonical].append(spelling)
    rules = [(rf"^(?i:{'|'.join(names)})://", f"{canonical}://") for canonical, names in aliases.items()]
    return [*rules, (r"^(?i:file):/+(localhost/)?", "file:///"), (r"^/+", "file:///")]


_RULES = _spellings()
_PLAIN = ("s3://", "file:///", "gs://")


def canonical_column(values: pa.Array) -> pa.Array:
    """Every address in its one spelling, as `model.uri.canonical` would give it."""
    for prefix in _PLAIN:
        if pc.all(pc.starts_with(values, prefix)).as_py():
            break
    else:
        for pattern, replacement in _RULES:
            values = pc.replace_substring_regex(values, pattern, replacement)
        return values
    if prefix == "file:///" and pc.any(pc.starts_with(values, "file:////")).as_py():
        return pc.replace_substring_regex(values, r"^file:/+", "file:///")
    return values


def file_names(keys: pa.Array) -> pa.Array:
    """The part after the last slash."""
    return pc.replace_substring_regex(keys, r"^.*/", "")
