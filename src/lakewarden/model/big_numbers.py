"""Numbers that a program may round: JSON readers that keep numbers as doubles lose the last digits beyond 2^53.

Snapshot ids are such numbers. Beside each of them stands the same number as a text, under the same name with `_text`:
`snapshot_id` and `snapshot_id_text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXACT = 2**53
SUFFIX = "_text"
# Ids are told as texts whatever their size, so that a program finds the text where it looks for it.
ALWAYS = "snapshot_id"


def with_texts(value: Any) -> Any:
    """A document with a text beside each number that may be rounded. Nothing that was there is changed."""
    if isinstance(value, Mapping):
        told: dict[Any, Any] = {}
        for name, item in value.items():
            told[name] = with_texts(item)
            if isinstance(name, str) and f"{name}{SUFFIX}" not in value and _may_be_rounded(name, item):
                told[f"{name}{SUFFIX}"] = _as_text(item)
        return told
    if isinstance(value, list | tuple):
        return [with_texts(item) for item in value]
    return value


def _may_be_rounded(name: str, item: Any) -> bool:
    if isinstance(item, list | tuple):
        return any(_is_big(one) for one in item)
    return _is_big(item) or (name.endswith(ALWAYS) and (item is None or isinstance(item, int)))


def _is_big(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and abs(item) > EXACT


def _as_text(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return [_as_text(one) for one in item]
    return None if item is None else str(item)
