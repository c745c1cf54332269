"""One local directory under two names: what is needed under one of them looks unneeded under the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from lakewarden.model.errors import Refusal
from lakewarden.model.roots import named_outside
from lakewarden.model.table import TableState

LOCAL = "file://"
HINT = "Name every table, and every directory it writes to, by the same path."


def aliased(prefixes: Iterable[str], states: Iterable[TableState]) -> dict[str, Refusal]:
    """Those of these directories that another of them, or a table, reaches through a link under another name."""
    local = {prefix for prefix in prefixes if prefix.startswith(LOCAL)}
    if not local:
        return {}
    found: dict[str, Refusal] = {}
    above: list[tuple[str, str]] = []
    # In order, whatever lies within a directory follows it.
    for there, place in sorted((_real(place), place) for place in local.union(*map(_elsewhere, states))):
        while above and not there.startswith(above[-1][0]):
            above.pop()
        for _, other in above:
            if not place.startswith(other) and not other.startswith(place):
                linked, target = (place, other) if place != there else (other, place)
                found |= {name: _refusal(linked, target) for name in (place, other) if name in local}
        above.append((there, place))
    return found


def _elsewhere(state: TableState) -> Iterator[str]:
    """Local directories of files that the metadata names outside the directories of its table."""
    for key in named_outside(state):
        if key.startswith(LOCAL):
            yield key.rpartition("/")[0] + "/"


def _real(prefix: str) -> str:
    return f"{LOCAL}{os.path.realpath(prefix.removeprefix(LOCAL)).rstrip('/')}/"


def _refusal(place: str, prefix: str) -> Refusal:
    message = f"{place} leads to {prefix} by a symbolic link, so its files have two names; nothing under it is touched"
    return Refusal("LW-ROOT-005", message, HINT)
