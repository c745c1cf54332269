"""Who needs files in each of several cases, said so that whatever they have in common is read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakewarden.model.table import Hold, Holder

_PARTS = ("manifest_lists", "manifests", "files")


def in_all_cases(cases: Mapping[int, Iterable[Holder]]) -> list[tuple[int, Holder]]:
    """The holders of several cases, each case under a bit of its own, as holders under the bits of all their cases.

    A table whose last ten snapshots stay in one case, and whose last five in another, has three holders: what both cases
    name, what only the first names, and what neither names is not there. What a holder needs of several manifest lists is
    what it needs of each, so such a holder is taken apart. Only `Hold.NET` is not: one list adds what another deletes.
    """
    whole: dict[Holder, int] = {}
    parts: dict[tuple[Hold, str, Any], int] = {}
    for bit, holders in cases.items():
        for holder in holders:
            if holder.hold is Hold.NET:
                whole[holder] = whole.get(holder, 0) | bit
                continue
            for name in _PARTS:
                for item in getattr(holder, name):
                    key = (holder.hold, name, item)
                    parts[key] = parts.get(key, 0) | bit
    together: dict[tuple[int, Hold], dict[str, list[Any]]] = {}
    for (hold, name, item), bits in parts.items():
        together.setdefault((bits, hold), {}).setdefault(name, []).append(item)
    return [(bits, holder) for holder, bits in whole.items()] + [
        (bits, Holder(hold, **{name: tuple(items) for name, items in found.items()}))
        for (bits, hold), found in together.items()
    ]
